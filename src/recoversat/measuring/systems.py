"""From a model and a test set to a `SystemOutput`: translate, time, and say with which settings."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recoversat import __version__
from recoversat.config import Config
from recoversat.files.model_folder import read_config, resolve_model
from recoversat.files.storage import fingerprint
from recoversat.inference.request import WantedSegments
from recoversat.inference.translation import Translation
from recoversat.measuring.quality.outputs import JSON, SegmentStat, SystemOutput, TestSet
from recoversat.measuring.specs import SystemSpec
from recoversat.show.progress import progress
from recoversat.text.directions import Directed, directed, translate_directed
from recoversat.text.tokenizer import vocabulary_fingerprint
from recoversat.translator import Translator

_LATENCY_SENTENCES, _THREADS = "latency_sentences", "threads"
_TIMING = {_LATENCY_SENTENCES: None, _THREADS: None}  # settings that change the time and not the text
_WEIGHTS = ("*.safetensors", "*.onnx", "weights.bin")
_BLOCK = 16  # batches between two signs of progress


@dataclass(frozen=True)
class ModelSystem:
    """A loaded model with the way it is asked to decode, and the settings that say so in reports."""

    name: str
    translator: Translator
    segments: WantedSegments  # None = a one-step model, which has none
    beam: int
    batch_size: int
    settings: dict[str, JSON]

    def translate(self, test_set: TestSet, quiet: bool = False) -> SystemOutput:
        """Translate a test set."""
        translations: list[Translation] = []
        with progress(f"{self.name} on {test_set.name}", len(test_set.sources), quiet=quiet) as bar:
            step = self.batch_size * _BLOCK
            sources = self._sources(test_set)
            for at in range(0, len(sources), step):
                block = sources[at : at + step]
                translations += self._translate(block, self.batch_size)
                bar.advance(len(block))
        return SystemOutput(
            name=self.name,
            test_set=test_set.name,
            hypotheses=[translation.text for translation in translations],
            tokens=[translation.ids for translation in translations],
            steps=[translation.steps for translation in translations],
            segments=None if self.segments is None else [_stats(translation) for translation in translations],
            scores=[translation.score for translation in translations],
            n_segments=self.segments,
            settings=self.settings,
        )

    def with_latency(self, output: SystemOutput, test_set: TestSet, n_sentences: int) -> SystemOutput:
        """Add the mean time of one sentence at batch 1, tokenisation included, over the first `n_sentences`."""
        sources = [source for source in self._sources(test_set) if source[1].strip()][:n_sentences]
        for source in sources:  # an engine prepares for every length it meets first
            self._translate([source], 1)
        began = time.perf_counter()
        for source in sources:
            self._translate([source], 1)
        milliseconds = 1000 * (time.perf_counter() - began) / max(len(sources), 1)
        settings: dict[str, JSON] = {**self.settings, _LATENCY_SENTENCES: n_sentences}
        return replace(output, latency_ms=milliseconds, settings=settings)

    def has_timed(self, output: SystemOutput, n_sentences: int) -> bool:
        """Say whether an output already carries the latency that `with_latency` would measure."""
        settings: dict[str, JSON] = {**self.settings, _LATENCY_SENTENCES: n_sentences}
        return output.latency_ms is not None and output.settings == settings

    def _sources(self, test_set: TestSet) -> list[Directed]:
        return directed(test_set.sources, self.translator.config.data, self.translator.target)

    def _translate(self, sources: Sequence[Directed], batch_size: int) -> list[Translation]:
        def translate(into: str, texts: list[str]) -> list[Translation]:
            translator = self.translator if into == self.translator.target else self.translator.into(into)
            return translator.translate(texts, segments=self.segments, batch_size=batch_size, beam=self.beam)

        return translate_directed(sources, translate)


def load_system(spec: SystemSpec, *, device: str = "auto", batch_size: int = 32) -> ModelSystem:
    """Load the model a spec names."""
    folder = resolve_model(Path(spec.path))
    translator = Translator(folder, target=spec.target, device=device)
    if spec.overlaps:
        translator.set_decoding(join_overlaps=spec.overlaps == "join")
    config, facts = translator.config, read_config(folder)[1]
    segments = None if config.model.kind == "nat" else _segments(translator, spec)
    settings = _settings(folder, config, facts, segments, spec.beam)
    settings |= engine_settings(translator.engine) | {"batch": batch_size}
    if config.data.both_directions:
        settings["to"] = translator.target
    if spec.teacher:
        translator.judged_by(spec.teacher, spec.lengths, device)
        judge = fingerprint(*sorted(resolve_model(Path(spec.teacher)).glob("*.safetensors")))
        settings |= {"lengths": spec.lengths, "teacher": judge}
    return ModelSystem(spec.name, translator, segments, spec.beam, batch_size, settings)


def _segments(translator: Translator, spec: SystemSpec) -> WantedSegments:
    """Return the K a spec asks for, or that of the model: a number, or "auto" where it has learnt several."""
    several = spec.segments is None and len(set(translator.config.train.segment_choices)) > 1
    return "auto" if spec.segments == "auto" or several else translator.segments_for(spec.segments)


def engine_settings(engine: object) -> dict[str, JSON]:
    """Ask an engine what it is; one that does not say is known by its class alone."""
    described: dict[str, JSON] | None = getattr(engine, "description", None)
    return described or {"engine": type(engine).__name__.removesuffix("Engine").lower()}


def same_settings(one: dict[str, JSON], other: dict[str, JSON]) -> bool:
    """Say whether two outputs come from the same system; how it was timed does not matter."""
    return {**one, **_TIMING} == {**other, **_TIMING}


def _settings(
    folder: Path, config: Config, facts: dict[str, Any], segments: WantedSegments, beam: int
) -> dict[str, JSON]:
    train, decode = config.train, config.decode
    divided = segments is not None and max(train.segment_choices) > 1
    settings: dict[str, JSON] = {
        "version": __version__,
        "data": facts.get("corpus"),
        "K": segments,
        "p": p_label(train.random_prob, train.anneal) if divided else None,
        "q": train.repeat_prob if divided else None,
        "beam": beam if segments == 1 else None,
        "weights": fingerprint(*sorted(path for kind in _WEIGHTS for path in folder.rglob(kind))),
        "vocabulary": vocabulary_fingerprint(folder),
        "updates": facts.get("step"),
        "extra_steps": decode.extra_steps,
    }
    if config.model.kind == "nat":
        settings["model"] = "nat"
    for name in ("cut_loops", "never_empty"):
        if getattr(decode, name):
            settings[name] = True
    if divided and decode.join_overlaps:
        settings["join_overlaps"] = True
    if segments == "auto" and decode.check_numbers:
        settings["check_numbers"] = True
    if segments == "auto":
        settings["segment_length"] = decode.segment_length
    if config.data.tokenizer == "bpe":
        settings["text"] = "tokenised"
    if beam > 1:
        settings["alpha"] = decode.length_penalty
    if divided and train.cut_at != "token":
        settings["cut_at"] = train.cut_at
    if divided and train.train_on_copies:
        settings["train_on_copies"] = True
    return settings


def p_label(random_prob: float, anneal: bool) -> str:
    """Spell p as the paper does.

    >>> p_label(1.0, anneal=True), p_label(0.5, anneal=False), p_label(0.0, anneal=True)
    ('1->0', '0.5', '0')
    """
    return f"{random_prob:g}->0" if anneal and random_prob else f"{random_prob:g}"


def _stats(translation: Translation) -> list[SegmentStat]:
    return [SegmentStat(len(segment.ids), segment.ending) for segment in translation.segments]
