"""Text in, translations out: the one place where inference is wired together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from recoversat.config import Config, parse_config
from recoversat.decoding.oneshot import Score
from recoversat.decoding.segmentwise import Decoded, Forced, decode_segments
from recoversat.decoding.stepping import Ints
from recoversat.engines.engine import Engine, OneShotEngine
from recoversat.engines.loading import ComputeType, EngineOptions, load_engine
from recoversat.errors import UserError
from recoversat.files.builtin import builtin_model
from recoversat.files.model_folder import read_config, resolve_model
from recoversat.inference.assembling import BROKEN, spelt_later, translation_of
from recoversat.inference.batches import BatchDecoder
from recoversat.inference.forcing import check_forced, force_lines, force_whole
from recoversat.inference.repairs.check_numbers import wrong_numbers
from recoversat.inference.repairs.lower_capitals import calm, is_loud
from recoversat.inference.request import WantedSegments, Wish, check_lines, check_list, warn_of_unlearnt
from recoversat.inference.translation import Translation, joined
from recoversat.text.alignment import Floats, Part, Range, locate_parts
from recoversat.text.directions import choose_direction, prefix_of
from recoversat.text.invisible import unreadable
from recoversat.text.tokenizer import Tokenizer, load_tokenizer

WINDOW = 16  # batches that are sorted by length together
_FIRST_WORDS = 8  # tokens that are looked at for a beginning, where a translation is empty


class Translator:
    """Translate with a model folder or training run; needs torch only where the folder holds torch weights.

    Without `model` a built-in one is used. `source` and `target` are language codes: they choose the built-in model,
    and the direction of a model that has two; otherwise they are only checked.
    `compute_type` is "int8" or "float32" ("default": int8 where it was exported), `intra_threads` the processor
    cores used (0 = all), `max_memory` a bound in bytes on what decoding needs beside the weights.
    """

    engine: Engine | OneShotEngine
    judge: Score | None = None  # length-parallel decoding: a teacher scores the candidates of a one-step model
    n_lengths: int = 9
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
        folder = builtin_model(source, target) if model is None else resolve_model(Path(model))
        self.config, _ = read_config(folder)
        self.tokenizer = load_tokenizer(folder)
        self._face(source, target)
        options = EngineOptions(device, compute_type, intra_threads, max_memory)
        self.engine = load_engine(folder, self.config.model, options)

    @classmethod
    def of(cls, engine: Engine | OneShotEngine, tokenizer: Tokenizer, config: Config) -> "Translator":
        """Wire a translator from parts that are already in memory."""
        translator = cls.__new__(cls)
        translator.engine, translator.tokenizer, translator.config = engine, tokenizer, config
        translator._face(None, None)
        return translator

    def into(self, target: str) -> "Translator":
        """Return a translator into another language, of the same model and with the same engine in memory."""
        other = copy(self)
        other._face(None, target)
        return other

    def judged_by(self, teacher: str | Path, n_lengths: int = 9, device: str = "auto") -> "Translator":
        """Let a teacher choose among `n_lengths` candidates of a one-step model; returns this translator."""
        from recoversat.engines.torch.scoring import load_judge

        if self.config.model.kind != "nat":
            raise UserError("--lengths: only a one-step model (model.kind nat) is decoded in several lengths")
        self.judge, self.n_lengths = load_judge(resolve_model(Path(teacher)), self.tokenizer.size, device), n_lengths
        return self

    def set_decoding(self, **settings: Any) -> None:
        """Change how this translator writes: `decode` settings of its model, by name."""
        self.config = parse_config(self.config.model_dump() | {"decode": self.config.decode.model_dump() | settings})

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
        scores: bool = True,
    ) -> list[Translation]:
        """Translate single lines; results come in the order of the input, whatever the batching.

        `segments` is K, or "auto" (see `segment_counts`); None is the model's own. Empty text gives empty text, and
        text longer than any the model has learnt from is translated sentence by sentence.
        `force` puts words into every translation ("6:1=the": segment 6 begins with "the"); `forced` is the same
        in ids, a text each. Without `scores` an engine may leave out log-probabilities, which is faster.
        """
        check_list(texts)
        check_lines(texts := list(texts))
        segments = int(segments) if isinstance(segments, np.integer) else segments
        if beam > 1 and segments is None and 1 in self.config.train.segment_choices:
            segments = 1  # a beam writes one segment
        wish = Wish(segments, batch_size, beam, scores, alternatives, forced, force)
        loud = {i for i, text in enumerate(texts) if self.config.decode.lower_capitals and is_loud(text)}
        results = self._translate([calm(text) if i in loud else text for i, text in enumerate(texts)], wish)
        for i in loud:
            results[i] = replace(results[i], source=texts[i], text=results[i].text.upper())
        return results

    def _translate(self, texts: list[str], wish: Wish) -> list[Translation]:
        sources, force, forced = self._encode(texts), wish.force, wish.forced
        in_parts = any(map(self._too_long, sources))
        if in_parts and (force or forced):
            line = next(number for number, ids in enumerate(sources, 1) if self._too_long(ids))
            most = self.config.data.max_tokens
            raise UserError(
                f"line {line}: too long to force words in it ({len(sources[line - 1])} pieces, at most {most})"
            )
        results = self._in_parts(texts, wish) if in_parts else self._whole(texts, sources, wish)
        return self._with_right_numbers(results, wish) if self._checks_numbers(wish) else results

    def translate_iterable(
        self,
        texts: Iterable[str],
        *,
        segments: WantedSegments = None,
        batch_size: int = 32,
        beam: int = 1,
        window: int = WINDOW,
        scores: bool = True,
        done: Callable[[int], None] = lambda count: None,
    ) -> Iterator[Translation]:
        """Translate a stream of any length in bounded memory: `window` batches are sorted at a time."""
        check_list(texts)
        Wish(segments, min(batch_size, window), beam)  # refused now, not when the first one is asked for

        def translations() -> Iterator[Translation]:
            stream = iter(texts)
            while block := list(islice(stream, batch_size * window)):
                yield from self.translate(block, segments=segments, batch_size=batch_size, beam=beam, scores=scores)
                done(len(block))

        return translations()

    def translate_file(
        self, src: str | Path, out: str | Path, *, segments: WantedSegments = None, beam: int = 1
    ) -> None:
        """Translate a file of any size line by line into another one, which appears whole or not at all."""
        from recoversat.pipeline.translate_files import translate_lines

        translate_lines(self, [Path(src)], Path(out), segments=segments, batch_size=32, jsonl=False, beam=beam)

    def score_batch(
        self, sources: Sequence[str], targets: Sequence[str], *, segments: int = 1, batch_size: int = 32
    ) -> list[Translation]:
        """Return given translations with the log-probabilities they have, as if written in K equal segments."""
        ids = [ids if text.strip() else [] for text, ids in zip(sources, self._encode(sources), strict=True)]
        pairs = list(zip(ids, self.tokenizer.encode(targets), strict=True))
        return [
            Translation(source, target, spelt_later(decoded, self.tokenizer), decoded.steps)
            for source, target, decoded in zip(
                sources, targets, self.score_ids(pairs, segments=segments, batch_size=batch_size), strict=True
            )
        ]

    def score_ids(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, segments: int = 1, batch_size: int = 32
    ) -> list[Decoded]:
        """Write each target as it is given, for the log-probabilities of its tokens and of every EOS."""
        if isinstance(self.engine, OneShotEngine):
            raise UserError("a one-step model gives no probability to a whole translation; use a teacher")
        if empty := [number for number, (source, _) in enumerate(pairs, 1) if not source]:
            raise UserError(f"pair {empty[0]}: its source is empty; leave empty lines out before scoring")
        k = self.segments_for(segments)
        scored: dict[int, Decoded] = {}
        lengths = [max(len(source), len(target)) for source, target in pairs]
        for batch in self._decoder.batches(lengths, np.full(len(pairs), k), 1, batch_size):
            n_segments, limits = np.full(len(batch), k), np.array([len(pairs[i][1]) + 1 for i in batch])
            stepper = self.engine.start([pairs[i][0] for i in batch], n_segments)
            forced = [force_whole(pairs[i][1], k) for i in batch]
            scored |= zip(batch, decode_segments(stepper, n_segments, limits, forced), strict=True)
        return [scored[i] for i in range(len(pairs))]

    def locate(self, parts: Sequence[Part]) -> list[Range | None]:
        """Find in translations what parts of their sources have become; None where the model does not know."""
        if isinstance(self.engine, OneShotEngine):
            return [None] * len(parts)
        k = min(self.config.train.segment_choices)

        def likelihoods(pairs: list[tuple[str, str]]) -> list[Floats]:
            sources, targets = (list(texts) for texts in zip(*pairs, strict=True))
            ids = list(zip(self._encode(sources), self.tokenizer.encode(targets), strict=True))
            scored = self.score_ids(ids, segments=k)
            return [np.array([p for segment in one.log_probs for p in segment[:-1]]) for one in scored]  # without EOS

        return locate_parts(parts, likelihoods, self.tokenizer)

    def segment_counts(self, wanted: WantedSegments, lengths: Sequence[int]) -> Ints:
        """Return K for sources of these lengths: the one wanted, or one that follows the length.

        With "auto" a source of n tokens gets K >= n / decode.segment_length, the least the model has learnt, so
        that the number of steps stays nearly the same however long the sentence is (the paper's footnote 1).
        """
        if isinstance(wanted, int):
            return np.full(len(lengths), self.segments_for(wanted))
        choices = np.unique(self.config.train.segment_choices)
        if wanted is None and len(choices) == 1:
            return np.full(len(lengths), self.segments_for(None))
        needed = np.asarray(lengths) / self.config.decode.segment_length
        return np.asarray(choices[np.minimum(np.searchsorted(choices, needed), len(choices) - 1)])

    def segments_for(self, wanted: WantedSegments) -> int:
        """Return the one K that is wanted, or the largest the model has learnt."""
        k = wanted if isinstance(wanted, int) else max(self.config.train.segment_choices)
        if not 1 <= k <= self.engine.max_segments:
            raise UserError(f"--segments {k}: this model writes 1 to {self.engine.max_segments} segments")
        learnt = self.config.train.segment_choices
        if not min(learnt) <= k <= max(learnt) and self.config.model.kind == "segments":
            warn_of_unlearnt(k, tuple(sorted(set(learnt))))
        return k

    def _face(self, source: str | None, target: str | None) -> None:
        """Choose the direction."""
        self.source, self.target = choose_direction(self.config.data, source, target)
        self.prefix = prefix_of(self.config.data, self.target)

    def _has_words(self, text: str) -> bool:
        """Say whether there is something to translate; where numbers are looked after, it must have letters."""
        if not self.config.decode.check_numbers:
            return bool(self._seen(text))
        return any(character.isalpha() for character in text)

    def _too_long(self, ids: Sequence[int]) -> bool:
        return len(ids) > self.config.data.max_tokens + bool(self.prefix)

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self.tokenizer.encode([self._seen(text) for text in texts], self.prefix)

    def _seen(self, text: str) -> str:
        return text.translate(self._unreadable).strip()

    @property
    def _decoder(self) -> BatchDecoder:
        return BatchDecoder(self.engine, self.config.decode, self.judge, self.n_lengths)

    @cached_property
    def _unreadable(self) -> dict[int, str]:
        return unreadable(self.tokenizer)

    def _whole(self, texts: Sequence[str], sources: list[list[int]], wish: Wish) -> list[Translation]:
        """Translate each text as one sentence."""
        k = self.segment_counts(wish.segments, [len(ids) for ids in sources])
        results = [Translation(text, text) for text in texts]
        lengths = [len(ids) if self._has_words(text) else 0 for ids, text in zip(sources, texts, strict=True)]
        counts = [int(count) if length else 0 for count, length in zip(k, lengths, strict=True)]
        forced = force_lines(wish.force, self.tokenizer, counts) if wish.force else wish.forced
        for i, decoded in self._decoder.decode(sources, lengths, k, wish, forced):
            results[i] = translation_of(texts[i], sources[i], decoded, self.tokenizer, self.config.decode)
            if wish.force and forced:
                check_forced(forced[i], decoded.segments, f"line {i + 1}")
        if wish.forced or wish.force:
            return results
        return self._with_words(self._with_whole_characters(results, wish), wish)

    def _in_parts(self, texts: Sequence[str], wish: Wish) -> list[Translation]:
        """Translate texts longer than any the model has learnt from sentence by sentence."""
        from recoversat.text.parts import Parts, parts_of

        def fits(part: str) -> bool:
            return not self._too_long(self._encode([part])[0])

        cut = [Parts([text], ["", ""]) if fits(text) else parts_of(text, self.source, fits) for text in texts]
        pieces = [piece for parts in cut for piece in parts.texts]
        done = iter(self._whole(pieces, self._encode(pieces), wish))
        results = []
        for text, parts in zip(texts, cut, strict=True):
            mine = list(islice(done, len(parts.texts)))
            results.append(joined(text, parts.joined([translation.text for translation in mine]), mine))
        return results

    def _with_whole_characters(self, results: list[Translation], wish: Wish) -> list[Translation]:
        """Write again, one token after the other, where segments have torn a character that is spelt in bytes."""
        if 1 not in self.config.train.segment_choices:
            return results
        torn = [
            i
            for i, one in enumerate(results)
            if one.text == one.source and len(one.segments) > 1 and BROKEN in self.tokenizer.decode(one.ids)
        ]
        sources = [results[i].source for i in torn]
        again = self._whole(sources, self._encode(sources), replace(wish, segments=1)) if torn else []
        for i, other in zip(torn, again, strict=True):
            results[i] = replace(other, steps=results[i].steps + other.steps)
        return results

    def _with_words(self, results: list[Translation], wish: Wish) -> list[Translation]:
        """Write again, from the likeliest first word on, where nothing was written; what says nothing then stays."""
        silent = [i for i, one in enumerate(results) if one.segments and not one.text.strip()]
        if not silent or not self.config.decode.never_empty or isinstance(self.engine, OneShotEngine):
            return results
        texts = [results[i].source for i in silent]
        sources, k = self._encode(texts), min(self.config.train.segment_choices)
        look = replace(wish, segments=k, beam=1, alternatives=_FIRST_WORDS)
        begun = dict(self._decoder.decode(sources, [len(ids) for ids in sources], np.full(len(texts), k), look, None))
        first = [self._first_word(begun[i].alternatives[0][0]) for i in range(len(texts))]
        again = self._whole(texts, sources, replace(wish, segments=k, beam=1, forced=first))
        for at, (i, other) in enumerate(zip(silent, again, strict=True)):
            steps = results[i].steps + begun[at].steps + other.steps
            results[i] = replace(other, text=other.text if other.text.strip() else other.source, steps=steps)
        return results

    def _first_word(self, best: list[tuple[int, float]]) -> Forced:
        words = [token for token, _ in best if any(map(str.isalpha, self.tokenizer.decode([token])))]
        return {(0, 0): words[0]} if words else {}

    def _checks_numbers(self, wish: Wish) -> bool:
        by_length = not isinstance(wish.segments, int) and 1 in self.config.train.segment_choices
        return self.config.decode.check_numbers and by_length and not (wish.beam > 1 or wish.forced or wish.force)

    def _with_right_numbers(self, results: list[Translation], wish: Wish) -> list[Translation]:
        """Write again, one token after the other, what has lost or invented a number; keep it where it is better.

        Where that does not help either, the words around the numbers are translated by themselves.
        """

        def wrong(translation: Translation) -> int:
            return wrong_numbers(translation.source, translation.text)

        doubtful = [i for i, result in enumerate(results) if len(result.segments) > 1 and wrong(result)]
        again = self.translate(
            [results[i].source for i in doubtful],
            segments=1, batch_size=wish.batch_size, alternatives=wish.alternatives, scores=wish.scores,
        )  # fmt: skip
        for i, other in zip(doubtful, again, strict=True):
            first = results[i]
            better = other if wrong(other) < wrong(first) else first
            results[i] = replace(better, steps=first.steps + other.steps)
        still = [i for i in doubtful if wrong(results[i])]
        for i, text in zip(still, self._around_numbers([results[i].source for i in still], wish), strict=True):
            results[i] = results[i] if wrong_numbers(results[i].source, text) else replace(results[i], text=text)
        return results

    def _around_numbers(self, texts: list[str], wish: Wish) -> list[str]:
        from recoversat.text.documents.translating import translate_documents

        def translate(parts: list[str]) -> list[str]:
            return [one.text for one in self._whole(parts, self._encode(parts), wish)]

        done = translate_documents(
            texts, translate, language=self.source,
            n_tokens=lambda part: len(self._encode([part])[0]), max_tokens=self.config.data.max_tokens,
        )  # fmt: skip
        return [document.text for document in done]
