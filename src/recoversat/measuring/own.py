"""From what the command line says of a system to one that runs: a peer, or a model of ours, described in full."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from recoversat import __version__
from recoversat.engines.loading import ComputeType
from recoversat.engines.vocabulary import TABLE
from recoversat.files.int8 import INT8
from recoversat.files.model_folder import ONNX, WEIGHTS, is_int8_alone, read_config, resolve_model
from recoversat.files.storage import fingerprint
from recoversat.inference.confidence import CALIBRATION
from recoversat.inference.request import WantedSegments
from recoversat.inference.translation import Translation
from recoversat.measuring.peers import peer_of
from recoversat.measuring.specs import SystemSpec
from recoversat.measuring.speed.fixed import FixedEngine
from recoversat.measuring.system import JSON, Done, System, nothing_done
from recoversat.text.directions import directed, translate_directed
from recoversat.text.tokenizer import vocabulary_fingerprint
from recoversat.translator import Translator

# what a model writes depends on, and how sure it is of that
_WEIGHT_FILES = ("*.safetensors", "weights.bin", TABLE, CALIBRATION)
_BLOCK = 16  # batches between two signs of progress


def load_system(spec: SystemSpec, device: str = "auto", threads: int = 0, *, scores: bool = True) -> System:
    """Load a folder of a peer, or a model folder or training run of ours, on whichever engine it has.

    Without `scores` ours leaves out log-probabilities, as peers do.
    """
    if peer := peer_of(spec.path):
        return peer(spec, "cpu" if device == "auto" else device, threads)
    folder = resolve_model(Path(spec.path))
    compute = cast(ComputeType, spec.compute)
    translator = Translator(folder, target=spec.target, device=device, compute_type=compute, intra_threads=threads)
    if spec.decode:
        translator.set_decoding(**spec.decode)
    if spec.teacher:
        translator.judged_by(spec.teacher, spec.lengths or 9, device)
    elif spec.lengths:
        translator.set_decoding(lengths=spec.lengths)
    return OwnSystem(spec, folder, translator, scores)


class OwnSystem(System):
    """A loaded model; without `scores` it leaves out log-probabilities, which is faster."""

    def __init__(self, spec: SystemSpec, folder: Path, translator: Translator, scores: bool = True) -> None:
        self._spec, self._folder, self._translator, self._scores = spec, folder, translator, scores
        self._engines: dict[int | None, Any] = {None: translator.engine}  # by the length they write
        kind, one_step = translator.config.model.kind, not translator.config.model.stepwise
        self._segments = None if one_step else _segments(translator, spec)
        decode = translator.config.decode
        usual = spec.segments is None and spec.beam == 1 and (decode.usual != "fast" or decode.exact)
        self._named = None if usual else self._segments  # a K that is named is what is written
        family = "at" if self._segments == 1 else "recoversat" if kind == "segments" else kind
        self.facts = {"family": family, "segments": self._segments, "beam": spec.beam, **translator.engine.description}
        self.facts["bytes"] = self._size()

    def translate(
        self, texts: Sequence[str], batch_size: int, length: int | None = None, done: Done = nothing_done
    ) -> list[Translation]:
        """Translate each line into the language asked for, or the one its tag names (validation text has tags)."""
        if length not in self._engines:
            self._engines[length] = FixedEngine(self._engines[None], length or 0)
        self._translator.engine = self._engines[length]
        sources = directed(texts, self._translator.config.data, self._translator.target)
        translations: list[Translation] = []
        for start in range(0, len(sources), batch_size * _BLOCK):
            block = sources[start : start + batch_size * _BLOCK]
            translations += translate_directed(block, lambda into, lines: self._into(into, lines, batch_size))
            done(len(block))
        return translations

    def _into(self, target: str, lines: list[str], batch_size: int) -> list[Translation]:
        translator = self._translator if target == self._translator.target else self._translator.into(target)
        return translator.translate(
            lines, segments=self._named, batch_size=batch_size, beam=self._spec.beam, scores=self._scores
        )

    def source_lengths(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self._translator.tokenizer.encode(texts)]

    def settings(self) -> dict[str, JSON]:
        """Return every setting of decoding, whatever there may be, and where the weights come from."""
        config, facts = self._translator.config, read_config(self._folder)[1]
        train = config.train
        settings: dict[str, JSON] = {
            **config.decode.model_dump(),
            "usual": config.decode.usual if self._named is None else "fast",
            "version": __version__,
            "data": facts.get("corpus"),
            "K": self._segments,
            "beam": self._spec.beam if self._segments == 1 else None,  # `translate` never reads decode.beam
            "weights": fingerprint(*sorted(path for kind in _WEIGHT_FILES for path in self._folder.rglob(kind))),
            "vocabulary": vocabulary_fingerprint(self._folder),
            "updates": facts.get("step"),
            **self._engines[None].description,
        }
        if config.model.kind != "segments":
            settings["model"] = config.model.kind
        elif max(train.segment_choices) > 1:
            settings |= {"p": p_label(train.random_prob, train.anneal), "q": train.repeat_prob}
            settings |= {"cut_at": train.cut_at} if train.cut_at != "token" else {}
            settings |= {"train_on_copies": True} if train.train_on_copies else {}
        if config.data.tokenizer == "bpe":
            settings["text"] = "tokenised"
        if config.data.tagged:
            settings["to"] = self._translator.target
        if self._spec.teacher:
            judge = fingerprint(*sorted(resolve_model(Path(self._spec.teacher)).glob("*.safetensors")))
            settings |= {"lengths": self._spec.lengths or 9, "teacher": judge}
        return settings

    def _size(self) -> int:
        int8 = self.facts.get("precision") == "int8" or is_int8_alone(self._folder)
        fp32 = self._folder / ONNX / "fp32" / "weights.bin"
        graphs = self.facts.get("engine") == "onnx"
        return (self._folder / INT8 if int8 else fp32 if graphs else self._folder / WEIGHTS).stat().st_size


def _segments(translator: Translator, spec: SystemSpec) -> WantedSegments:
    """Return the K a spec asks for, or that of the model: a number, or "auto" where it has learnt several."""
    choices = set(translator.config.train.segment_choices)
    if spec.segments is None and spec.beam > 1 and 1 in choices:
        return 1  # as `translate --beam` has it
    several = spec.segments is None and len(choices) > 1
    return "auto" if spec.segments == "auto" or several else translator.segments_for(spec.segments)


def p_label(random_prob: float, anneal: bool) -> str:
    return f"{random_prob:g}->0" if anneal and random_prob else f"{random_prob:g}"
