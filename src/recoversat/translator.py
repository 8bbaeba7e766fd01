"""Text in, translations out: the one place where inference is wired together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from recoversat.config import Config
from recoversat.decoding.beam import beam_search
from recoversat.decoding.oneshot import Score, Writer, decode_lengths, decode_once
from recoversat.decoding.segmentwise import Decoded, Forced, decode_segments, max_steps
from recoversat.engines.engine import Engine, OneShotEngine
from recoversat.errors import UserError
from recoversat.forcing import check_forced, force_words
from recoversat.model_folder import read_config, resolve_model
from recoversat.segments import assemble
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
    """Translate with a model folder or training run; needs torch only where the folder holds torch weights."""

    engine: Engine | OneShotEngine
    judge: Score | None = None  # length-parallel decoding: a teacher scores the candidates of a one-step model
    n_lengths: int = 9

    def __init__(self, model: str | Path, *, device: str = "auto") -> None:
        folder = resolve_model(Path(model))
        self.config, _ = read_config(folder)
        self.tokenizer = load_tokenizer(folder)
        self.engine = _load_engine(folder, device)

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
        full = [i for i, ids in enumerate(sources) if ids and texts[i].strip()]
        full.sort(key=lambda i: -len(sources[i]))  # alike lengths together; the largest batch comes first
        for at in range(0, len(full), batch_size):
            batch = full[at : at + batch_size]
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

    def segments_for(self, wanted: int | None) -> int:
        """Return the K that is decoded with: the one wanted, or the model's own."""
        k = wanted if wanted is not None else max(self.config.train.segment_choices)
        if not 1 <= k <= self.engine.max_segments:
            raise UserError(f"--segments {k}: this model writes 1 to {self.engine.max_segments} segments")
        return k

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
        found = beam_search(
            self.engine.start(sources, n_segments), limits, beam, self.config.decode.length_penalty
        )
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


def _load_engine(folder: Path, device: str) -> Engine | OneShotEngine:
    try:
        from recoversat.engines.torch_engine import load_torch_engine
    except ImportError:
        raise UserError(
            f"{folder} holds torch weights: pip install 'recoversat[train]', or export it to ONNX"
        ) from None
    return load_torch_engine(folder, device)
