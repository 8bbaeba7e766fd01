"""Translate the texts of several requests together; on request, show how a text came about."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from recoversat.decoding.segmentwise import Forced
from recoversat.errors import UserError
from recoversat.inference.request import WantedSegments
from recoversat.inference.translation import Translation, mean_log_prob
from recoversat.serve.work.alternatives import TRIES, other_translations
from recoversat.serve.work.catalog import ServedModel
from recoversat.serve.work.documents import Group, parts_of
from recoversat.text.documents.translating import TranslatedDocument
from recoversat.text.glossary import Glossary
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
class BatchKey:
    """What texts must share to be translated together."""

    source: str
    target: str
    segments: WantedSegments  # K, or by length; None = as the model is set
    html: bool = False
    quality: str | None = None  # None = as the model is set to write
    glossary: Glossary | None = None


@dataclass(frozen=True)
class Task:
    """A text to translate, and what its sender wants to know beside the translation.

    Of a file it is a `group` of blocks; then `text` is what they say, to be measured.
    """

    text: str
    alternatives: int = 0
    details: bool = False
    trace: int | None = None  # best tokens to show at each position
    forced: tuple[ForcedToken, ...] = ()
    confidence: bool = False
    group: Group | None = None

    @property
    def copies(self) -> int:
        """How many times the text is written at most: once, and for each alternative so many tries."""
        return 1 + TRIES * self.alternatives

    @property
    def cost(self) -> int:
        """What there is to do, before the model's tokenizer has counted: no text has more pieces than bytes."""
        return len(self.text.encode("utf-8", "replace")) * self.copies

    @property
    def plain(self) -> bool:
        """Say whether only the translation is wanted."""
        more = self.alternatives or self.details or self.trace is not None or self.forced or self.confidence
        return not (more or self.group)

    def parts(self, *, whole: bool) -> list["Task"]:
        """Cut a long text, unless it must be seen `whole`: as HTML, or where more is asked for than its translation."""
        if whole or not self.plain:
            return [self]
        return [replace(self, text=part) for part in parts_of(self.text)]


@dataclass(frozen=True)
class Outcome:
    """A translated text; the rest is filled in for those who asked."""

    text: str
    alternatives: list[str] = field(default_factory=list)
    sentences: list[Translation] = field(default_factory=list)
    milliseconds: float = 0.0
    split: int = 0
    blocks: list[str] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return sum(sentence.steps for sentence in self.sentences)

    @property
    def confidence(self) -> float | None:
        """How likely K = 1 finds a token, over all sentences; None where nothing was translated."""
        known = [(len(one.ids) + 1, one.confidence) for one in self.sentences if one.confidence]
        total = sum(tokens for tokens, _ in known)
        return math.exp(sum(tokens * math.log(sure) for tokens, sure in known) / total) if known else None

    @property
    def score(self) -> float | None:
        """Mean log-probability of a token, over all sentences."""
        mean = mean_log_prob(self.sentences)
        return mean if math.isfinite(mean) else None


def joined(parts: Sequence[Outcome]) -> Outcome:
    """Put the parts of a text together; only a text in one part has more to tell than its translation."""
    if len(parts) == 1:
        return parts[0]
    return Outcome("".join(part.text for part in parts), split=sum(part.split for part in parts))


@dataclass(frozen=True)
class Job:
    """A model, and within which bounds it is to translate what shares a key."""

    model: ServedModel
    key: BatchKey
    batch_size: int
    piece_limit: int
    count: Count


def translate_tasks(job: Job, tasks: Sequence[Task]) -> list[Outcome | Exception]:
    """Translate tasks: plain ones all together, the others one by one; a failure stays with its own task."""
    results: list[Outcome | Exception] = [_over_budget(job, task) or Outcome(task.text) for task in tasks]
    within = [i for i, result in enumerate(results) if isinstance(result, Outcome)]
    plain = [i for i in within if tasks[i].plain]
    for i, outcome in zip(plain, _together(job, [tasks[i] for i in plain]), strict=True):
        results[i] = outcome
    for i in within:
        if not tasks[i].plain:
            group = tasks[i].group
            results[i] = _attempt(partial(_of_file, job, group) if group else partial(_alone, job, tasks[i]))
    return results


def _over_budget(job: Job, task: Task) -> UserError | None:
    """Count the pieces to be written, before the model sees any."""
    pieces = job.model.n_tokens(task.text) * task.copies if task.cost > job.piece_limit else 0
    if pieces <= job.piece_limit:
        return None
    fewer = " or ask for fewer alternatives" if task.alternatives else ""
    return UserError(f"{pieces} pieces to be written, at most {job.piece_limit}; shorten the text{fewer}")


def _together(job: Job, tasks: list[Task]) -> list[Outcome | Exception]:
    def attempt(group: list[Task]) -> list[Outcome] | Exception:
        try:
            return [_outcome(done) for done in _documents(job, [task.text for task in group], SentenceTranslator(job))]
        except Exception as error:
            return error

    done = attempt(tasks)
    if not isinstance(done, Exception):
        return list(done)
    # One text may have spoilt it for all: find out which.
    singly = [attempt([task]) for task in tasks] if len(tasks) > 1 else [done]
    return [single if isinstance(single, Exception) else single[0] for single in singly]


def _alone(job: Job, task: Task) -> Outcome:
    top_tokens = max(task.trace or 0, 2 if task.alternatives else 0)
    sentences = SentenceTranslator(job, top_tokens, task.forced, task.confidence)
    start = time.perf_counter()
    document = _documents(job, [task.text], sentences)[0]
    milliseconds = 1000 * (time.perf_counter() - start)
    if task.forced and max(token.sentence for token in task.forced) >= len(sentences.first):
        raise UserError(f"forced: this text has {len(sentences.first)} sentences, counted from 0")
    outcome = replace(_outcome(document), sentences=sentences.first, milliseconds=milliseconds)
    if not task.alternatives:
        return outcome
    others = other_translations(
        job.model, sentences.first, sentences.first_forced, task.alternatives, sentences.translate
    )
    texts = [_documents(job, [task.text], partial(others.nth, nth))[0].text for nth in range(task.alternatives)]
    unique = [text for text in dict.fromkeys(texts) if text != outcome.text]
    return replace(outcome, alternatives=unique)


def _of_file(job: Job, group: Group) -> Outcome:
    done = job.model.translator.translate_blocks(
        group.blocks, language=job.model.source, translate=SentenceTranslator(job)
    )
    return Outcome("", blocks=[block.text for block in done])


class SentenceTranslator:
    """Translate sentences and remember how; what is forced concerns the first call, the sentences themselves."""

    def __init__(
        self, job: Job, top_tokens: int = 0, forced: Sequence[ForcedToken] = (), confidence: bool = False
    ) -> None:
        self._job, self._top_tokens, self._forced, self._confidence = job, top_tokens, forced, confidence
        self.first: list[Translation] = []
        self.first_forced: list[Forced] = []  # one mapping for each of them

    def __call__(self, sentences: list[str]) -> list[str]:
        if self.first:
            return [translation.text for translation in self.translate(sentences)]
        self.first_forced = [*self._forced_ids(len(sentences))]
        self.first = self.translate(sentences, forced=self.first_forced if self._forced else None)
        return [translation.text for translation in self.first]

    def translate(
        self, sentences: list[str], segments: int | None = None, forced: list[Forced] | None = None
    ) -> list[Translation]:
        """Translate single lines, in K segments (None: as the key has it), some tokens forced; it is counted."""
        translations = self._job.model.translator.translate(
            sentences,
            segments=segments or self._job.key.segments,
            batch_size=self._job.batch_size,
            forced=forced,
            alternatives=self._top_tokens,
            confidence=self._confidence,
            quality=None if forced else self._job.key.quality,  # what is forced names a segment of one K
            glossary=None if forced else self._job.key.glossary,
        )
        self._job.count(len(sentences), sum(translation.steps for translation in translations))
        return translations

    def _forced_ids(self, n_sentences: int) -> list[dict[tuple[int, int], int]]:
        ids: list[dict[tuple[int, int], int]] = [{} for _ in range(n_sentences)]
        for wanted in self._forced:
            if wanted.sentence < n_sentences:
                token = _token_id(self._job, wanted)
                ids[wanted.sentence][wanted.segment, wanted.position] = token
        return ids


def _token_id(job: Job, wanted: ForcedToken) -> int:
    index, k = job.model.vocabulary.get(wanted.token), job.key.segments
    if index is None or index in NEVER_EMITTED:
        raise UserError(f"forced: {wanted.token!r} is no token of this model")
    assert isinstance(k, int)  # whoever forces a token names K
    if wanted.segment >= k:
        raise UserError(f"forced: segment {wanted.segment} of {k}, counted from 0")
    if index == DEL and k == 1:
        raise UserError("forced: the only segment cannot be deleted")
    return index


def _documents(job: Job, texts: list[str], translate: Translate) -> list[TranslatedDocument[str]]:
    model, form = job.model, "html" if job.key.html else "text"
    return model.translator.translate_documents(texts, format=form, language=model.source, translate=translate)


def _outcome(document: TranslatedDocument[str]) -> Outcome:
    return Outcome(document.text, split=len(document.split))


def _attempt(translate: Callable[[], Outcome]) -> Outcome | Exception:
    try:
        return translate()
    except Exception as error:
        return error
