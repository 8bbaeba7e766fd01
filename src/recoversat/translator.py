"""Text in, translations out: the one place where inference is wired together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from recoversat.config import Config
from recoversat.decoding.beam import beam_search
from recoversat.decoding.oneshot import Score, Writer, decode_lengths, decode_once
from recoversat.decoding.segmentwise import Decoded, Forced, decode_segments, max_steps
from recoversat.engines.engine import BoundedEngine, Engine, OneShotEngine
from recoversat.engines.loading import ComputeType, EngineOptions, load_engine
from recoversat.errors import UserError
from recoversat.forcing import check_forced, force_words
from recoversat.model_folder import read_config, resolve_model
from recoversat.segments import assemble, equal_cuts
from recoversat.text.tokenizer import Tokenizer, load_tokenizer
from recoversat.vocab import DEL, EOS

Ending = Literal["eos", "del", "cut"]


@dataclass(frozen=True)
class Segment:
    """One segment as it was written, deleted or not."""

    text: str
    pieces: list[str]
    ids: list[int]
    ending: Ending
    log_probs: list[float]  # of each piece, then of EOS or DEL unless it was cut off
    alternatives: list[list[tuple[str, float]]] = field(default_factory=list)

    @property
    def score(self) -> float:
        """Mean log-probability of the segment's tokens."""
        return float(np.mean(self.log_probs)) if self.log_probs else 0.0


@dataclass(frozen=True)
class Translation:
    """A translated sentence and how it came about."""

    source: str
    text: str
    segments: list[Segment] = field(default_factory=list)
    steps: int = 0

    @property
    def ids(self) -> list[int]:
        """Token ids of the translation, deleted segments left out."""
        return [i for segment in self.segments if segment.ending != "del" for i in segment.ids]

    @property
    def score(self) -> float:
        """Mean log-probability over all tokens of the kept segments."""
        kept = [p for segment in self.segments if segment.ending != "del" for p in segment.log_probs]
        return float(np.mean(kept)) if kept else 0.0


class Translator:
    """Translate with a model folder or training run; needs torch only where the folder holds torch weights.

    `compute_type` is "int8" or "float32" ("default": int8 where it was exported), `intra_threads` the processor
    cores used (0 = all), `max_memory` a bound in bytes on what decoding needs beside the weights.
    """

    engine: Engine | OneShotEngine
    judge: Score | None = None  # length-parallel decoding: a teacher scores the candidates of a one-step model
    n_lengths: int = 9

    def __init__(
        self,
        model: str | Path,
        *,
        device: str = "auto",
        compute_type: ComputeType = "default",
        intra_threads: int = 0,
        max_memory: int | None = None,
    ) -> None:
        folder = resolve_model(Path(model))
        self.config, _ = read_config(folder)
        self.tokenizer = load_tokenizer(folder)
        options = EngineOptions(device, compute_type, intra_threads, max_memory)
        self.engine = load_engine(folder, self.config.model, options)

    @classmethod
    def of(cls, engine: Engine | OneShotEngine, tokenizer: Tokenizer, config: Config) -> "Translator":
        """Wire a translator from parts that are already in memory."""
        translator = cls.__new__(cls)
        translator.engine, translator.tokenizer, translator.config = engine, tokenizer, config
        return translator

    def judged_by(self, teacher: str | Path, n_lengths: int = 9, device: str = "auto") -> "Translator":
        """Let a teacher choose among `n_lengths` candidates of a one-step model; returns this translator."""
        from recoversat.engines.scoring import load_judge

        if self.config.model.kind != "nat":
            raise UserError("--lengths: only a one-step model (model.kind nat) is decoded in several lengths")
        self.judge, self.n_lengths = load_judge(resolve_model(Path(teacher)), self.tokenizer.size, device), n_lengths
        return self

    def translate(
        self,
        texts: Sequence[str],
        *,
        segments: int | None = None,
        batch_size: int = 32,
        beam: int = 1,
        forced: Sequence[Forced] | None = None,
        force: Sequence[str] = (),
        alternatives: int = 0,
    ) -> list[Translation]:
        """Translate single lines; results come in the order of the input, whatever the batching.

        `segments` is K (the model's own by default). Empty text gives empty text. `force` puts words into
        every translation ("6:1=the": segment 6 begins with "the"); `forced` is the same in ids, a text each.
        """
        k = self.segments_for(segments)
        if force:
            forced = [force_words(force, self.tokenizer, k)] * len(texts)
        sources = self.tokenizer.encode(texts)
        results = [Translation(text, text) for text in texts]
        lengths = [len(ids) if text.strip() else 0 for ids, text in zip(sources, texts, strict=True)]
        for batch in self._batches(lengths, k, beam, batch_size):
            batch_forced = [forced[i] for i in batch] if forced else None
            decoded = self._decode([sources[i] for i in batch], k, beam, batch_forced, alternatives)
            for i, result in zip(batch, decoded, strict=True):
                results[i] = self._assemble(texts[i], result)
                if force and forced:
                    check_forced(forced[i], result.segments, f"line {i + 1}")
        return results

    def translate_iterable(
        self,
        texts: Iterable[str],
        *,
        segments: int | None = None,
        batch_size: int = 32,
        beam: int = 1,
        window: int = 16,
        done: Callable[[int], None] = lambda count: None,
    ) -> Iterator[Translation]:
        """Translate a stream of any length in bounded memory: `window` batches are sorted at a time."""
        stream = iter(texts)
        while block := list(islice(stream, batch_size * window)):
            yield from self.translate(block, segments=segments, batch_size=batch_size, beam=beam)
            done(len(block))

    def translate_file(self, src: str | Path, out: str | Path, *, segments: int | None = None, beam: int = 1) -> None:
        """Translate a file of any size line by line into another one, which appears whole or not at all."""
        from recoversat.translate_files import translate_lines

        translate_lines(self, [Path(src)], Path(out), segments=segments, batch_size=32, jsonl=False, beam=beam)

    def score_batch(
        self, sources: Sequence[str], targets: Sequence[str], *, segments: int = 1, batch_size: int = 32
    ) -> list[Translation]:
        """Return given translations with the log-probabilities they have, as if written in K equal segments."""
        if isinstance(self.engine, OneShotEngine):
            raise UserError("a one-step model gives no probability to a whole translation; use a teacher")
        src, tgt, k = self.tokenizer.encode(sources), self.tokenizer.encode(targets), self.segments_for(segments)
        results = [Translation(*pair) for pair in zip(sources, targets, strict=True)]
        lengths = [max(len(one), len(other)) if one else 0 for one, other in zip(src, tgt, strict=True)]
        if not all(lengths):
            raise UserError(f"pair {lengths.index(0) + 1}: its source is empty; leave empty lines out before scoring")
        for batch in self._batches(lengths, k, 1, batch_size):
            n_segments, limits = np.full(len(batch), k), np.array([len(tgt[i]) + 1 for i in batch])
            stepper = self.engine.start([src[i] for i in batch], n_segments)
            decoded = decode_segments(stepper, n_segments, limits, [_forced_whole(tgt[i], k) for i in batch])
            for i, result in zip(batch, decoded, strict=True):
                results[i] = self._assemble(sources[i], result)
        return results

    def segments_for(self, wanted: int | None) -> int:
        """Return the K that is decoded with: the one wanted, or the model's own."""
        k = wanted if wanted is not None else max(self.config.train.segment_choices)
        if not 1 <= k <= self.engine.max_segments:
            raise UserError(f"--segments {k}: this model writes 1 to {self.engine.max_segments} segments")
        return k

    def _batches(self, lengths: Sequence[int], k: int, beam: int, batch_size: int) -> Iterator[list[int]]:
        """Group texts of like length, the largest batch first; an engine whose memory is bounded gets smaller ones."""
        order = sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i])
        while order:
            size, longest = batch_size, lengths[order[0]]
            if isinstance(self.engine, BoundedEngine) and (most := self.engine.largest_batch(longest, k)) is not None:
                size = min(batch_size, max(1, most // beam))  # each hypothesis takes the place of a sentence
            yield order[:size]
            order = order[size:]

    def _decode(
        self, sources: list[list[int]], k: int, beam: int, forced: list[Forced] | None, alternatives: int
    ) -> list[Decoded]:
        n_segments = np.full(len(sources), k)
        limits = max_steps(np.array([len(ids) for ids in sources]), n_segments, self.config.decode.extra_steps)
        if isinstance(self.engine, OneShotEngine):
            return self._decode_at_once(self.engine.open(sources), sources)
        if beam == 1:
            return decode_segments(self.engine.start(sources, n_segments), n_segments, limits, forced, alternatives)
        if k > 1:
            raise UserError(f"--beam {beam}: beam search writes one segment, this would be {k}; add --segments 1")
        if forced or alternatives:
            raise UserError(f"--beam {beam}: a beam is neither forced nor traced; leave out --beam, --force or --trace")
        found = beam_search(self.engine.start(sources, n_segments), limits, beam, self.config.decode.length_penalty)
        ends = [[EOS] if nbest.best.closed else [] for nbest in found]
        return [
            Decoded([nbest.best.tokens + end], [nbest.best.token_log_probs], nbest.steps)
            for nbest, end in zip(found, ends, strict=True)
        ]

    def _decode_at_once(self, writer: Writer, sources: list[list[int]]) -> list[Decoded]:
        """Write with a one-step model: in the length it predicts, or in several that a teacher judges (LPD)."""
        found = decode_lengths(writer, sources, self.judge, self.n_lengths) if self.judge else decode_once(writer)
        return [Decoded([[*one.tokens, EOS]], [one.log_probs], steps=1) for one in found]

    def _assemble(self, source: str, decoded: Decoded) -> Translation:
        # a model may spell a line break in bytes; a line of text it must stay
        text = self.tokenizer.decode(assemble(decoded.segments)).replace("\n", " ").replace("\r", " ")
        return Translation(
            source, text, [self._segment(decoded, i) for i in range(len(decoded.segments))], decoded.steps
        )

    def _segment(self, decoded: Decoded, index: int) -> Segment:
        tokens = decoded.segments[index]
        ending: Ending = {EOS: "eos", DEL: "del"}.get(tokens[-1], "cut") if tokens else "cut"  # type: ignore[assignment]
        ids = tokens if ending == "cut" else tokens[:-1]
        alternatives = [
            list(zip(self.tokenizer.pieces([i for i, _ in best]), [p for _, p in best], strict=True))
            for best in (decoded.alternatives[index] if decoded.alternatives else [])
        ]
        return Segment(
            self.tokenizer.decode(ids), self.tokenizer.pieces(ids), ids, ending, decoded.log_probs[index], alternatives
        )


def _forced_whole(target: Sequence[int], k: int) -> Forced:
    """Force every token of a translation that is cut into K equal segments, and their ends."""
    cuts = [0, *equal_cuts(np.array([len(target)]), np.array([k]), k)[0].tolist()]
    segments = [[*target[start:end], EOS] for start, end in pairwise(cuts)]
    return {(i, j): token for i, segment in enumerate(segments) for j, token in enumerate(segment)}
