"""Text in, translations out: the one place where inference is wired together."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, AnyStr

import numpy as np

from recoversat.config import QUALITIES, Config, parse_config, with_quality
from recoversat.decoding.segmentwise import Decoded, Forced
from recoversat.decoding.stepping import Bools, Ints
from recoversat.engines.engine import Engine
from recoversat.engines.loading import ComputeType, EngineOptions, load_engine
from recoversat.engines.pairs import check_pairs
from recoversat.errors import UserError
from recoversat.files.model_folder import model_folder, read_config, resolve_model
from recoversat.inference.assembling import Source, join_drafts, lazy_segments
from recoversat.inference.background import awaitable
from recoversat.inference.confidence import Calibration, Curve
from recoversat.inference.glossary import check_glossary
from recoversat.inference.repairing import Repairs, repairs_for
from recoversat.inference.request import (
    Request,
    Scores,
    WantedSegments,
    check_lines,
    check_list,
    check_whole,
    modes_for,
    warn_of_untrained,
)
from recoversat.inference.translation import Translation
from recoversat.inference.writing import Writer
from recoversat.text.alignment import Floats, Part, Range, locate_parts
from recoversat.text.directions import choose_direction, prefix_of
from recoversat.text.documents import LINES
from recoversat.text.documents.block import Block
from recoversat.text.documents.translating import TranslatedDocument, translate_blocks, translate_documents
from recoversat.text.glossary import Glossary, GlossaryLike
from recoversat.text.invisible import unreadable
from recoversat.text.parts import Parts
from recoversat.text.tokenizer import Tokenizer, load_tokenizer

_LOADED = ("engine", "tokenizer", "turns", "_unreadable", "_begins")  # what a pickled translator makes anew
WINDOW = 16  # batches that are sorted by length together


@dataclass(frozen=True)
class _Origin:
    """Where a translator's model came from, to load it again."""

    folder: Path
    options: EngineOptions
    judge: tuple[Path, int, str] | None = None


class Translator:
    """Translate with a model folder or training run; needs torch only where the folder holds torch weights.

    Without `model` a built-in one is used. `source` and `target` are language codes: they choose the built-in model,
    and the direction of a model that has two; otherwise they are only checked.
    `compute_type` is "int8" or "float32" ("default": int8 where it was exported), `intra_threads` the processor
    cores used (0 = all), `max_memory` a bound in bytes on what decoding needs beside the weights.
    """

    engine: Engine
    turns: Lock  # held by who translates in the background (`atranslate`)
    _origin: _Origin | None
    glossary: Glossary | None = None  # terms of all that is translated
    calibration: Calibration | None = None
    prefix: str = ""  # tag of the direction, before every source of a model that has two

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        source: str | None = None,
        target: str | None = None,
        device: str = "auto",
        compute_type: ComputeType = "default",
        intra_threads: int = 0,
        max_memory: int | None = None,
    ) -> None:
        folder = model_folder(None if model is None else Path(model), source, target)
        options = EngineOptions(device, compute_type, intra_threads, max_memory)
        self.config, _ = read_config(folder)
        self.set_direction(source, target)
        self._load(_Origin(folder.resolve(), options))

    def _load(self, origin: "_Origin") -> None:
        self._origin, self.turns = origin, Lock()
        self.calibration = Calibration.read(origin.folder)
        self.tokenizer = load_tokenizer(origin.folder)
        self.engine = load_engine(origin.folder, self.config.model, origin.options)
        if origin.judge:
            self.judged_by(*origin.judge)

    @classmethod
    def of(cls, engine: Engine, tokenizer: Tokenizer, config: Config) -> "Translator":
        """Wire a translator from parts that are already in memory."""
        translator = cls.__new__(cls)
        translator.engine, translator.tokenizer, translator.config = engine, tokenizer, config
        translator._origin, translator.turns = None, Lock()
        translator.set_direction(None, None)
        return translator

    def into(self, target: str) -> "Translator":
        """Return a translator into another language, of the same model and with the same engine in memory."""
        other = copy(self)
        other.set_direction(None, target)
        return other

    def judged_by(self, teacher: str | Path, n_lengths: int = 9, device: str = "auto") -> "Translator":
        """Let a teacher choose among `n_lengths` candidates of a one-step model; returns this translator."""
        folder = resolve_model(Path(teacher))
        config, _ = read_config(folder)
        if config.model.kind != "segments" or config.model.vocab_size != self.tokenizer.size:
            raise UserError(f"{teacher}: not an autoregressive teacher with the same vocabulary")
        options = self._origin.options if self._origin else EngineOptions()  # as precise, and as many threads
        judge = load_engine(folder, config.model, replace(options, device=device))
        self.engine = self.engine.judged_by(judge, n_lengths)
        self._origin = self._origin and replace(self._origin, judge=(folder.resolve(), n_lengths, device))
        return self

    def __copy__(self) -> "Translator":
        """Share the model in memory; settings, direction and glossary are the copy's own."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is loaded again from the model's folder."""
        if self._origin is None:
            raise UserError("a translator made of parts in memory cannot be pickled; save the model and load it")
        return {key: value for key, value in self.__dict__.items() if key not in _LOADED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._load(state["_origin"])

    def set_decoding(self, **settings: Any) -> None:
        """Change how this translator writes: `decode` settings of its model, by name.

        A way to write that is named here is no longer only the `usual` one, but that of every call.
        """
        settings = with_quality(settings)
        if "tolerance" in settings and "exact" not in settings and self.config.decode.usual != "fast":
            settings = QUALITIES[self.config.decode.usual] | settings  # less strict than what is usual
        named = {"usual": "fast"} if settings.keys() & QUALITIES["fast"].keys() else {}
        decode = self.config.decode.model_dump() | named | settings
        self.config = parse_config(self.config.model_dump() | {"decode": decode})

    def set_glossary(self, glossary: GlossaryLike | None) -> None:
        """Give terms for all that this translator does: a mapping or a file; None for none."""
        self.glossary = None if glossary is None else Glossary.of(glossary)
        if self.glossary:
            check_glossary(self.config.model.kind, forced=False)

    def translate(
        self,
        texts: Sequence[str],
        *,
        segments: WantedSegments = None,
        batch_size: int = 32,
        beam: int = 1,
        forced: Sequence[Forced] | None = None,
        force: Sequence[str] = (),
        alternatives: int = 0,
        scores: Scores = True,
        repairs: bool = True,
        confidence: bool = False,
        quality: str | None = None,
        glossary: GlossaryLike | None = None,
    ) -> list[Translation]:
        """Translate single lines; results come in the order of the input, whatever the batching.

        `segments` is K, or "auto" (see `segment_counts`); None is the model's own.
        `quality` is "fast", "balanced", "best" or "exact" (docs/decoding.md).
        Empty text gives empty text, and text longer than any the model was trained on is translated sentence by
        sentence.
        `force` puts words into every translation ("6:1=the": segment 6 begins with "the"); `forced` is the same
        in ids, a text each. Without `scores` an engine may leave out log-probabilities, which is faster; with "one"
        it notes those of what one segment says, which are a confidence.
        Without `repairs` translations stay as they were decoded, as in the paper.
        `confidence` has every translation scored with K = 1 (see `Translation.confidence`).
        `glossary` says how terms are to be translated: a mapping or a file (docs/glossary.md), beside `set_glossary`.
        """
        check_list(texts)
        check_lines(texts := list(texts))
        if forced and len(forced) != len(texts):
            raise UserError(f"forced is of {len(forced)} texts, and there are {len(texts)}: give one each")
        segments = Request.wanted(segments)
        decode = modes_for(self.config, segments, quality, beam=beam, forced=bool(forced or force))
        if beam > 1 and segments is None and 1 in self.config.train.segment_choices:
            segments = 1  # a beam writes one segment
        terms = self._terms(glossary, forced=bool(forced or force))
        if isinstance(alternatives, int):
            alternatives = min(alternatives, self.tokenizer.size)
        request = Request(segments, batch_size, beam, scores, alternatives, forced, force, repairs, decode, terms)
        chain = Repairs(repairs_for(self, request))
        writer = Writer(self, request, chain)
        lines = [Parts([text], ["", ""]) if request.is_forced else chain.cut(text) for text in texts]
        given = [chain.prepared(text) for line in lines for text in line.texts]
        cut, sources = writer.cut([stages[-1] for stages in given])
        written = writer.write(sources)  # decode, assemble, repair
        drafts = iter(writer.judged(written) if confidence else written)
        whole = [join_drafts(parts, list(islice(drafts, len(parts.texts)))) for parts in cut]
        back = iter([chain.restored(draft, stages) for draft, stages in zip(whole, given, strict=True)])
        joined = [join_drafts(line, list(islice(back, len(line.texts)))) for line in lines]
        return [draft.translation(text, self.curve) for draft, text in zip(joined, texts, strict=True)]

    atranslate = awaitable(translate)

    def translate_text(
        self,
        text: str,
        *,
        format: str = "text",
        segments: WantedSegments = None,
        batch_size: int = 32,
        beam: int = 1,
        glossary: GlossaryLike | None = None,
    ) -> str:
        """Translate a text of any length and return it: sentences are found, line breaks and placeholders kept."""
        if not isinstance(text, str):
            raise UserError(f"expected one text, not {type(text).__name__}; translate_documents takes a list")
        (document,) = self.translate_documents(
            [text], format=format, segments=segments, batch_size=batch_size, beam=beam, glossary=glossary
        )
        return document.text

    def translate_html(
        self,
        html: str,
        *,
        segments: WantedSegments = None,
        batch_size: int = 32,
        beam: int = 1,
        glossary: GlossaryLike | None = None,
    ) -> str:
        """Translate a page or a piece of HTML and return it: tags are kept."""
        return self.translate_text(
            html, format="html", segments=segments, batch_size=batch_size, beam=beam, glossary=glossary
        )

    def translate_documents(
        self,
        texts: Sequence[AnyStr],
        *,
        format: str = "text",
        language: str | None = None,
        segments: WantedSegments = None,
        batch_size: int = 32,
        beam: int = 1,
        glossary: GlossaryLike | None = None,
        translate: Callable[[list[str]], list[str]] | None = None,
    ) -> list[TranslatedDocument[AnyStr]]:
        """Translate whole texts of any length; line breaks, placeholders and, in HTML, tags stay in their places.

        `format` is one of `recoversat.text.documents.FORMATS`; those that are no text are given, and answered, as
        bytes. `language` is that of the texts where the model's own code does not say it. Whoever has another way to
        translate sentences gives it as `translate`.
        """

        def plainly(sentences: list[str]) -> list[str]:
            done = self.translate(sentences, segments=segments, batch_size=batch_size, beam=beam, glossary=glossary)
            return [translation.text for translation in done]

        check_list(texts, "translate_documents")
        return translate_documents(
            texts,
            translate or plainly,
            language=language or self.source,
            target=self.target,
            format=format,
            fits=self.fits,
            locate=self.locate,
        )

    def translate_blocks(
        self, blocks: Sequence[Block], *, language: str, translate: Callable[[list[str]], list[str]]
    ) -> list[TranslatedDocument[str]]:
        """Translate blocks of documents that somebody else has parsed and will put together again."""
        return translate_blocks(blocks, translate, language=language, fits=self.fits, locate=self.locate)

    def translate_iterable(
        self,
        texts: Iterable[str],
        *,
        segments: WantedSegments = None,
        batch_size: int = 32,
        beam: int = 1,
        window: int = WINDOW,
        alternatives: int = 0,
        scores: Scores = True,
        glossary: GlossaryLike | None = None,
        confidence: bool = False,
        done: Callable[[int], None] = lambda count: None,
    ) -> Iterator[Translation]:
        """Translate a stream of any length in bounded memory: `window` batches are sorted at a time."""
        check_list(texts)
        check_whole(window=window)
        Request(Request.wanted(segments), batch_size, beam)  # refused now, not when something is read

        def translations() -> Iterator[Translation]:
            stream = iter(texts)
            while block := list(islice(stream, batch_size * window)):
                yield from self.translate(
                    block, segments=segments, batch_size=batch_size, beam=beam, alternatives=alternatives,
                    scores=scores, glossary=glossary, confidence=confidence,
                )  # fmt: skip
                done(len(block))

        return translations()

    def translate_file(
        self, src: str | Path, out: str | Path, *, segments: WantedSegments = None, beam: int = 1
    ) -> None:
        """Translate a file into another one, which appears whole or not at all: by its extension, or line by line.

        Lines may be any number; a document is read whole. docs/files.md lists the formats.
        """
        from recoversat.pipeline.options import TranslateOptions
        from recoversat.pipeline.outputs import plan_outputs
        from recoversat.pipeline.translate_documents import translate_documents
        from recoversat.pipeline.translate_files import translate_jobs

        asked = TranslateOptions([Path(src)], segments=segments, beam=beam)
        (job,) = plan_outputs(asked.files, str(out))  # never over its own source
        if asked.format == LINES:
            translate_jobs(self, [job], asked)
        else:
            translate_documents(self, job, asked)

    def score_batch(
        self, sources: Sequence[str], targets: Sequence[str], *, segments: int = 1, batch_size: int = 32
    ) -> list[Translation]:
        """Return given translations with the log-probabilities they have, as if written in K equal segments."""
        for given in (sources, targets):
            check_list(given, "score_batch")
        if len(sources) != len(targets):
            raise UserError(f"score_batch: {len(sources)} sources and {len(targets)} targets; give one for each")
        ids = [ids if text.strip() else [] for text, ids in zip(sources, self.encode(sources), strict=True)]
        pairs = list(zip(ids, self.tokenizer.encode_targets(targets), strict=True))
        scored = self.score_ids(pairs, segments=segments, batch_size=batch_size)
        return [
            Translation(source, target, lazy_segments(decoded, self.tokenizer), decoded.steps, list(written))
            for source, target, decoded, (_, written) in zip(sources, targets, scored, pairs, strict=True)
        ]

    def score_ids(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, segments: int = 1, batch_size: int = 32
    ) -> list[Decoded]:
        """Return each target as if written in K equal segments, with the log-probabilities of its tokens and ends."""
        check_pairs(pairs)
        k, parts = self.segments_for(segments), range(0, len(pairs), batch_size)
        return [one for at in parts for one in self.engine.score(pairs[at : at + batch_size], k)]

    def locate(self, parts: Sequence[Part]) -> list[Range | None]:
        """Find in translations what parts of their sources have become; None where the model does not know."""
        if self.config.model.kind != "segments":
            return [None] * len(parts)
        k = min(self.config.train.segment_choices)

        def likelihoods(pairs: list[tuple[str, str]]) -> list[Floats]:
            sources, targets = (list(texts) for texts in zip(*pairs, strict=True))
            ids = list(zip(self.encode(sources), self.tokenizer.encode_targets(targets), strict=True))
            scored = self.score_ids(ids, segments=k)
            return [np.array([p for segment in one.log_probs for p in segment[:-1]]) for one in scored]  # without EOS

        return locate_parts(parts, likelihoods, self.tokenizer)

    def segment_counts(self, wanted: WantedSegments, lengths: Sequence[int]) -> Ints:
        """Return K for sources of these lengths: the one wanted, or one that follows the length.

        With "auto" a source of n tokens gets the least K >= n / decode.segment_length that the model was trained for.
        So the number of steps stays nearly the same (the paper's footnote 1) up to the largest such K, or
        decode.most_segments; a sentence longer than that K times decode.segment_length takes more steps.
        """
        if isinstance(wanted, int):
            return np.full(len(lengths), self.segments_for(wanted))
        if wanted is None and len(set(self.config.train.segment_choices)) == 1:
            return np.full(len(lengths), self.segments_for(None))
        choices, each = self.config.auto_choices, self.config.decode.segment_length
        return np.array([choices[bisect_left(choices, length / each, hi=len(choices) - 1)] for length in lengths])

    def segments_for(self, wanted: WantedSegments) -> int:
        """Return the one K that is wanted, or the largest the model was trained for."""
        trained = self.config.train.segment_choices
        k = wanted if isinstance(wanted, int) else max(trained)
        if not 1 <= k <= self.engine.max_segments:
            raise UserError(f"segments {k}: this model writes 1 to {self.engine.max_segments} segments")
        if not min(trained) <= k <= max(trained) and self.config.model.stepwise:
            warn_of_untrained(k, tuple(sorted(set(trained))))
        return k

    @property
    def curve(self) -> Curve | None:
        """What a confidence means in this direction; None where nobody has calibrated the model."""
        return self.calibration.curve(self.source, self.target) if self.calibration else None

    def set_direction(self, source: str | None, target: str | None) -> None:
        """Choose the languages to translate from and into."""
        self.source, self.target = choose_direction(self.config.data, source, target)
        self.prefix = prefix_of(self.config.data, self.target)

    def _terms(self, given: GlossaryLike | None, *, forced: bool) -> Glossary | None:
        """Return the terms of a call, over those that were set for all; what is forced is not written again."""
        if given is None:
            return self.glossary
        check_glossary(self.config.model.kind, forced=forced)
        return Glossary.of(given).over(self.glossary)

    def fits(self, text: str) -> bool:
        """Say whether a text is no longer than those the model was trained on."""
        return self.is_short(self.encode([text])[0])

    def is_short(self, ids: Sequence[int]) -> bool:
        """Say the same of a text that was read."""
        return len(ids) <= self.config.data.max_tokens + bool(self.prefix)  # the tag of a direction is no text

    def read(self, texts: Sequence[str]) -> list[Source]:
        return list(map(Source, texts, self.encode(texts)))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return texts as the model reads them."""
        return self.tokenizer.encode([self._readable(text).strip() for text in texts], self.prefix)

    def _readable(self, text: str) -> str:
        return text if text.isprintable() else text.translate(self._unreadable)

    @cached_property
    def _unreadable(self) -> dict[int, str]:
        return unreadable(self.tokenizer)

    @property
    def begins(self) -> Bools | None:
        """(V,) what a segment may begin with, where not every token may."""
        return self._begins if self.config.decode.begin_at == "word" else None

    @cached_property
    def _begins(self) -> Bools:
        return self.tokenizer.begins()
