"""Translate the texts of several requests together; on request, show how a text came about."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from recoversat.decoding.segmentwise import Forced
from recoversat.errors import UserError
from recoversat.inference.translation import Translation
from recoversat.serve.work.alternatives import other_translations
from recoversat.serve.work.catalog import ServedModel
from recoversat.text.document import TranslatedDocument, translate_documents
from recoversat.vocab import DEL, NEVER_EMITTED

Translate = Callable[[list[str]], list[str]]
Count = Callable[[int, int], None]  # is told of sentences and decoding steps


@dataclass(frozen=True)
class ForcedToken:
    """A token that must stand at a position (from 0) of a segment of a sentence."""

    segment: int
    position: int
    token: str
    sentence: int = 0


@dataclass(frozen=True)
class Manner:
    """How to translate: texts that share it can be translated together."""

    model: ServedModel
    segments: int | None  # K; None = the model's own, by length where it has learnt several
    html: bool = False


@dataclass(frozen=True)
class Task:
    """A text to translate, and what its sender wants to know beside the translation."""

    text: str
    alternatives: int = 0
    details: bool = False
    trace: int | None = None  # best tokens to show at each position
    forced: tuple[ForcedToken, ...] = ()

    @property
    def plain(self) -> bool:
        """Say whether only the translation is wanted."""
        return not (self.alternatives or self.details or self.trace is not None or self.forced)


@dataclass(frozen=True)
class Outcome:
    """A translated text; the rest is filled in for those who asked."""

    text: str
    alternatives: list[str] = field(default_factory=list)
    sentences: list[Translation] = field(default_factory=list)
    milliseconds: float = 0.0
    split: int = 0

    @property
    def steps(self) -> int:
        """Decoding steps of all sentences."""
        return sum(sentence.steps for sentence in self.sentences)

    @property
    def score(self) -> float | None:
        """Mean log-probability of a token, over all sentences."""
        scores = [p for s in self.sentences for seg in s.segments if seg.ending != "del" for p in seg.log_probs]
        mean = sum(scores) / len(scores) if scores else 0.0
        return mean if math.isfinite(mean) else None


def translate_tasks(manner: Manner, tasks: Sequence[Task], batch_size: int, count: Count) -> list[Outcome | Exception]:
    """Translate tasks: plain ones all together, the others one by one; a failure stays with its own task."""
    results: list[Outcome | Exception] = [RuntimeError("not translated")] * len(tasks)
    plain = [i for i, task in enumerate(tasks) if task.plain]
    for i, outcome in zip(plain, _together(manner, [tasks[i] for i in plain], batch_size, count), strict=True):
        results[i] = outcome
    for i, task in enumerate(tasks):
        if not task.plain:
            results[i] = _attempt(partial(_alone, manner, task, batch_size, count))
    return results


def _together(manner: Manner, tasks: list[Task], batch_size: int, count: Count) -> list[Outcome | Exception]:
    def attempt(group: list[Task]) -> list[Outcome] | Exception:
        scribe = _Scribe(manner, batch_size, count)
        try:
            return [_outcome(done) for done in _documents(manner, [task.text for task in group], scribe)]
        except Exception as error:
            return error

    done = attempt(tasks)
    if not isinstance(done, Exception):
        return list(done)
    # One text may have spoilt it for all: find out which.
    singly = [attempt([task]) for task in tasks] if len(tasks) > 1 else [done]
    return [single if isinstance(single, Exception) else single[0] for single in singly]


def _alone(manner: Manner, task: Task, batch_size: int, count: Count) -> Outcome:
    n_best = max(task.trace or 0, 2 if task.alternatives else 0)
    scribe = _Scribe(manner, batch_size, count, n_best, task.forced)
    start = time.perf_counter()
    document = _documents(manner, [task.text], scribe)[0]
    milliseconds = 1000 * (time.perf_counter() - start)
    if task.forced and max(token.sentence for token in task.forced) >= len(scribe.first):
        raise UserError(f"forced: this text has {len(scribe.first)} sentences, counted from 0")
    outcome = replace(_outcome(document), sentences=scribe.first, milliseconds=milliseconds)
    if not task.alternatives:
        return outcome
    others = other_translations(manner.model, scribe.first, scribe.first_forced, task.alternatives, scribe.translate)
    texts = [_documents(manner, [task.text], partial(others.nth, nth))[0].text for nth in range(task.alternatives)]
    unique = [text for text in dict.fromkeys(texts) if text != outcome.text]
    return replace(outcome, alternatives=unique)


class _Scribe:
    """Translate sentences and remember how; what is forced concerns the first call, the sentences themselves."""

    def __init__(
        self, manner: Manner, batch_size: int, count: Count, n_best: int = 0, forced: Sequence[ForcedToken] = ()
    ) -> None:
        self._manner, self._batch_size, self._count, self._n_best = manner, batch_size, count, n_best
        self._forced = forced
        self.first: list[Translation] = []
        self.first_forced: list[Forced] = []  # one mapping for each of them

    def __call__(self, sentences: list[str]) -> list[str]:
        """Translate single lines."""
        if self.first:
            return [translation.text for translation in self.translate(sentences)]
        self.first_forced = [*self._forced_ids(len(sentences))]
        self.first = self.translate(sentences, forced=self.first_forced if self._forced else None)
        return [translation.text for translation in self.first]

    def translate(
        self, sentences: list[str], segments: int | None = None, forced: list[Forced] | None = None
    ) -> list[Translation]:
        """Translate single lines, in K segments (None: as the manner has it), some tokens forced; it is counted."""
        translations = self._manner.model.translator.translate(
            sentences,
            segments=segments or self._manner.segments,
            batch_size=self._batch_size,
            forced=forced,
            alternatives=self._n_best,
        )
        self._count(len(sentences), sum(translation.steps for translation in translations))
        return translations

    def _forced_ids(self, n_sentences: int) -> list[dict[tuple[int, int], int]]:
        ids: list[dict[tuple[int, int], int]] = [{} for _ in range(n_sentences)]
        for wanted in self._forced:
            if wanted.sentence < n_sentences:
                token = _token_id(self._manner, wanted)
                ids[wanted.sentence][wanted.segment, wanted.position] = token
        return ids


def _token_id(manner: Manner, wanted: ForcedToken) -> int:
    index = manner.model.vocabulary.get(wanted.token)
    if index is None or index in NEVER_EMITTED:
        raise UserError(f"forced: {wanted.token!r} is no token of this model")
    assert manner.segments is not None  # whoever forces a token names K
    if wanted.segment >= manner.segments:
        raise UserError(f"forced: segment {wanted.segment} of {manner.segments}, counted from 0")
    if index == DEL and manner.segments == 1:
        raise UserError("forced: the only segment cannot be deleted")
    return index


def _documents(manner: Manner, texts: list[str], translate: Translate) -> list[TranslatedDocument]:
    model = manner.model
    return translate_documents(
        texts,
        translate,
        language=model.source,
        format="html" if manner.html else "text",
        n_tokens=model.n_tokens,
        max_tokens=model.max_tokens,
        locate=model.translator.locate,
    )


def _outcome(document: TranslatedDocument) -> Outcome:
    return Outcome(document.text, split=len(document.split))


def _attempt(translate: Callable[[], Outcome]) -> Outcome | Exception:
    try:
        return translate()
    except Exception as error:
        return error
