"""From a request to an answer: choose languages and model, wait for the batch, fill in what was asked for."""

import asyncio
import math
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request

from recoversat.errors import UserError
from recoversat.inference.translation import Segment, Translation
from recoversat.serve.http.messages import TranslateRequest
from recoversat.serve.http.refusals import RefusalError, client_left, shutting_down, too_busy, too_much
from recoversat.serve.service import Service
from recoversat.serve.work.batching import ClosedError, QueueFullError
from recoversat.serve.work.documents import Group
from recoversat.serve.work.translating import BatchKey, ForcedToken, Outcome, Task, joined
from recoversat.text.directions import known_language
from recoversat.text.glossary import Glossary
from recoversat.text.languages import Detected, language_name
from recoversat.vocab import DEL, EOS, SPECIAL_PIECES

_ENDINGS = {"eos": [SPECIAL_PIECES[EOS]], "del": [SPECIAL_PIECES[DEL]], "cut": []}
_HTML = 3  # times the cost of plain text: what stands in elements is translated too, and looked for
_GLOSSARY = 4  # times the cost: where a term is missing, a sentence is written again in several ways
_LONGEST = 40  # characters of a code that are said back to whoever sent it
_SHORT = 40  # characters; shorter texts of a list are detected together
_GROUPS_AT_ONCE = 32  # of a file that wait to be translated

R = TypeVar("R")


@dataclass(frozen=True)
class Plan:
    """What is to be done: one key a text, or None where a text comes back as it is."""

    keys: list[BatchKey | None]
    detected: list[Detected] | None
    direction: str  # for the log


def plan(service: Service, wanted: TranslateRequest) -> Plan:
    """Check limits and languages, and choose a model for each text."""
    texts = wanted.texts
    check_size(service, texts)
    source = "auto" if wanted.source == "auto" else on_offer(service, wanted.source)
    target = on_offer(service, wanted.target)
    detected = detect_all(service, texts) if source == "auto" else None
    sources = [found.language for found in detected] if detected else [source] * len(texts)
    return Plan([_key(service, wanted, one, target) for one in sources], detected, f"{source}-{target}")


def file_key(service: Service, fields: dict[str, Any]) -> BatchKey:
    """Check the languages of a file, and choose a model for it."""
    source, target = (on_offer(service, str(fields[name])) for name in ("source", "target"))
    if source == target:
        return BatchKey(source, target, None)
    key = _key(service, TranslateRequest(q="file", source=source, target=target), source, target)
    assert key is not None
    return key


async def translate_blocks(
    service: Service, client: str, request: Request, key: BatchKey, groups: Sequence[Group], timeout: float
) -> list[str]:
    """Have the blocks of a file translated; a few groups wait at a time, lest one file fills the queue."""

    async def work() -> list[str]:
        done: list[str] = []
        for first in range(0, len(groups), _GROUPS_AT_ONCE):
            jobs = [_file_job(key, group) for group in groups[first : first + _GROUPS_AT_ONCE]]
            done += [text for outcome in await _done(service, client, jobs) for text in outcome.blocks]
        return done

    return await while_wanted(request, work(), timeout)


def _file_job(key: BatchKey, group: Group) -> tuple[BatchKey, Task, int]:
    task = Task(group.text, group=group)
    return key, task, task.cost * (_HTML if group.has_tags else 1)


async def _done(service: Service, client: str, jobs: list[tuple[BatchKey, Task, int]]) -> list[Outcome]:
    """Queue jobs and wait for them; nothing stays in the queue."""
    futures: list[asyncio.Future[Outcome]] = []
    try:
        futures += service.batcher.submit(client, jobs)
        return await asyncio.gather(*futures)
    except QueueFullError as full:
        raise too_busy(full.retry_after) from None
    except ClosedError:
        raise shutting_down() from None
    except UserError as error:
        raise RefusalError(400, f"Invalid request: {error}") from None
    finally:
        for future in futures:
            # Asking for the exception keeps asyncio from logging it, with the user's text, as never looked at.
            _ = future.cancel() or future.cancelled() or future.exception()


async def while_wanted(request: Request, work: Coroutine[Any, Any, R], timeout: float | None = None) -> R:
    """Do some work, until time is up or the client has left."""
    task, left = asyncio.ensure_future(work), asyncio.ensure_future(_client_leaves(request))
    try:
        await asyncio.wait([task, left], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if left.done():
            raise client_left()
        raise RefusalError(503, f"Timed out after {timeout:g} seconds: try again later", retry_after=1)
    finally:
        task.cancel()
        left.cancel()
        await asyncio.gather(task, left, return_exceptions=True)  # else asyncio logs what nobody looks at


async def _client_leaves(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def on_offer(service: Service, code: str) -> str:
    """Find the language on offer that a code means."""
    known = service.catalog.languages
    if (found := known_language(code, known)) not in known:
        raise RefusalError(400, f"{code[:_LONGEST]} is not supported")
    return found


def check_size(service: Service, texts: Sequence[str]) -> None:
    """Refuse too many texts, or one of too many characters."""
    settings = service.settings
    if len(texts) > settings.text_limit:
        raise too_much(len(texts), settings.text_limit)
    if (longest := max(map(len, texts))) > settings.char_limit:
        raise too_much(longest, settings.char_limit)


def detect_all(service: Service, texts: Sequence[str]) -> list[Detected]:
    """Detect the language of each text; short ones are judged by the whole list."""
    overall = service.detect("\n".join(texts))[0]
    return [service.detect(text)[0] if len(text) > _SHORT else overall for text in texts]


def _key(service: Service, wanted: TranslateRequest, source: str, target: str) -> BatchKey | None:
    if source == target:
        return None
    segments = wanted.segments
    model = service.catalog.route(source, target, segments)
    if model is None:
        raise RefusalError(
            400,
            f"{language_name(target)} ({target}) is not available as a target language from "
            f"{language_name(source)} ({source})",
        )
    if wanted.forced and segments == "auto" and len(model.choices) > 1:
        raise RefusalError(400, "Invalid request: segments: a forced token names its segment; give a number, not auto")
    if wanted.forced and segments in (None, "auto"):
        segments = model.segments
    if isinstance(segments, int) and segments > model.max_segments:
        raise RefusalError(400, f"Invalid request: segments: this model writes 1 to {model.max_segments} segments")
    _check_mode(wanted, model.choices)
    terms = _glossary(wanted)
    return BatchKey(source, target, segments, wanted.format == "html", wanted.mode, terms)


def _glossary(wanted: TranslateRequest) -> Glossary | None:
    if not wanted.glossary:
        return None
    if wanted.forced:
        raise RefusalError(400, "Invalid request: glossary: it goes without forced tokens")
    try:
        return Glossary.of(wanted.glossary)
    except UserError as error:
        raise RefusalError(400, f"Invalid request: {error}") from None


def _check_mode(wanted: TranslateRequest, trained: Sequence[int]) -> None:
    """Refuse what the model could not do with the text, before it waits."""
    if wanted.mode in (None, "fast"):
        return
    if wanted.forced:
        raise RefusalError(400, f"Invalid request: forced: not together with quality {wanted.mode!r}; leave one out")
    if 1 not in trained:
        raise RefusalError(400, f"Invalid request: quality {wanted.mode!r} needs a model trained for 1 segment too")


def _task(wanted: TranslateRequest, text: str) -> Task:
    forced = tuple(ForcedToken(f.segment, f.position, f.token, f.sentence) for f in wanted.forced or [])
    details, confidence = bool(wanted.details), bool(wanted.confidence)
    return Task(text, wanted.alternatives or 0, details, wanted.trace, forced, confidence)


async def translate_all(
    service: Service, client: str, request: Request, wanted: TranslateRequest, planned: Plan
) -> list[Outcome]:
    """Queue the texts and wait for them."""
    jobs: list[tuple[BatchKey, Task, int]] = []
    places: list[list[Outcome | None]] = []  # for each text its parts, in order; None where a job brings it
    for text, key in zip(wanted.texts, planned.keys, strict=True):
        places.append([])
        for task in _task(wanted, text).parts(whole=key is None or key.html):
            if key is None or not task.text.strip():
                places[-1].append(Outcome(task.text))
            else:
                cost = task.cost * (_HTML if key.html else 1) * (_GLOSSARY if key.glossary else 1)
                jobs.append((key, task, cost))
                places[-1].append(None)
    done = iter(await while_wanted(request, _done(service, client, jobs), service.settings.timeout) if jobs else [])
    return [joined([one or next(done) for one in parts]) for parts in places]


def answer(wanted: TranslateRequest, planned: Plan, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Write the answer; lists for a list, single values for a single text."""

    def shaped(values: list[Any]) -> Any:
        return values if isinstance(wanted.q, list) else values[0]

    message: dict[str, Any] = {"translatedText": shaped([outcome.text for outcome in outcomes])}
    if planned.detected:
        found = [{"confidence": d.confidence, "language": d.language} for d in planned.detected]
        message["detectedLanguage"] = shaped(found)
    if wanted.alternatives:
        message["alternatives"] = shaped([outcome.alternatives for outcome in outcomes])
    if wanted.details:
        message["details"] = shaped([_details(o, m) for o, m in zip(outcomes, planned.keys, strict=True)])
    if wanted.confidence:
        sure = [outcome.confidence for outcome in outcomes]
        message["confidence"] = shaped([None if one is None else round(one, 4) for one in sure])
    if wanted.trace is not None:
        message["trace"] = shaped([_trace(wanted, outcome) for outcome in outcomes])
    return message


def _details(outcome: Outcome, key: BatchKey | None) -> dict[str, Any]:
    return {
        "segments": max((len(sentence.segments) for sentence in outcome.sentences), default=0) if key else 0,
        "steps": outcome.steps,
        "score": None if outcome.score is None else round(outcome.score, 4),
        "milliseconds": round(outcome.milliseconds, 2),
        "split": outcome.split,
    }


def _trace(wanted: TranslateRequest, outcome: Outcome) -> list[dict[str, Any]]:
    forced = {(f.sentence, f.segment, f.position) for f in wanted.forced or []}
    return [_traced(at, sentence, wanted.trace or 0, forced) for at, sentence in enumerate(outcome.sentences)]


def _traced(at: int, sentence: Translation, top_tokens: int, forced: set[tuple[int, int, int]]) -> dict[str, Any]:
    segments = []
    for number, segment in enumerate(sentence.segments):
        places = {position for where, which, position in forced if (where, which) == (at, number)}
        segments.append(_traced_segment(segment, top_tokens, places))
    return {
        "source": sentence.source,
        "text": sentence.text,
        "steps": sentence.steps,
        "repairs": list(sentence.repairs),
        "confidence": None if sentence.confidence is None else round(sentence.confidence, 4),
        "doubtful": [list(place) for place in sentence.doubtful],
        "draft": sentence.verified and {"pieces": sentence.verified.draft, "accepted": sentence.verified.accepted},
        "segments": segments,
    }


def _traced_segment(segment: Segment, top_tokens: int, forced: set[int]) -> dict[str, Any]:
    tokens = []
    for position, piece in enumerate([*segment.pieces, *_ENDINGS[segment.ending]]):
        best = segment.alternatives[position][:top_tokens] if segment.alternatives else []
        tokens.append(
            {
                "piece": piece,
                "probability": _probability(segment.log_probs[position]),
                "forced": position in forced,
                "alternatives": [{"piece": other, "probability": _probability(p)} for other, p in best],
            }
        )
    return {"text": segment.text, "ending": segment.ending, "overlap": segment.overlap, "tokens": tokens}


def _probability(log_prob: float) -> float:
    return round(math.exp(log_prob), 4)
