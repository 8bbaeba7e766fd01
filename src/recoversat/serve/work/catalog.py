"""The models on offer: which folder translates which pair of languages, and with how many segments."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from recoversat.engines.loading import ComputeType, is_exported
from recoversat.errors import UserError
from recoversat.files.model_folder import builtin_models, model_fingerprint, read_config, resolve_model
from recoversat.inference.request import WantedSegments
from recoversat.serve.settings import ServeSettings
from recoversat.text.glossary import Glossary

if TYPE_CHECKING:
    from recoversat.translator import Translator

_PAIR = re.compile(r"([A-Za-z]+)[-:]([A-Za-z]+)|([A-Za-z-]+):([A-Za-z-]+)")

_DECODING_SHARE = 4  # a quarter of a worker's memory is for decoding, beside weights, requests and Python itself


@dataclass(frozen=True)
class ModelSource:
    """A model folder and the languages it translates between."""

    source: str
    target: str
    folder: Path


@dataclass(frozen=True)
class OfferedModel:
    """What is known of a model in a process that has not loaded it; `choices` are the K it was trained with."""

    source: str
    target: str
    max_segments: int
    choices: tuple[int, ...]

    @property
    def autoregressive(self) -> bool:
        """Say whether this model only writes one token after the other."""
        return self.choices == (1,)

    @property
    def segments(self) -> int:
        """K where one is needed and nobody names it: the model's own, or of several the middle one."""
        return self.choices[len(self.choices) // 2]


@dataclass(frozen=True, eq=False)
class ServedModel(OfferedModel):
    """A loaded model."""

    translator: "Translator"
    vocabulary: dict[str, int] = field(repr=False)

    @property
    def offered(self) -> OfferedModel:
        """What other processes need to know of it."""
        return OfferedModel(self.source, self.target, self.max_segments, self.choices)

    def n_tokens(self, text: str) -> int:
        return len(self.translator.tokenizer.encode([text])[0])


M = TypeVar("M", bound=OfferedModel)


def parse_model(text: str) -> list[ModelSource]:
    """Read PAIR=FOLDER, or FOLDER alone: then its config names the languages, of both directions if it has two."""
    codes, path = _pair_and_path(text)
    if "=" in text and not codes and not path.exists():  # the name of a folder may have a "=" too
        raise UserError(f"--model {text}: write it like en-de=FOLDER, or zh-Hans:en=FOLDER")
    folder = resolve_model(path)
    config, _ = read_config(folder)
    if config.model.kind != "segments":
        raise UserError(f"--model {text}: a {config.model.kind!r} model cannot be served; give one of kind 'segments'")
    if not codes:
        return in_each_direction(folder)
    source, target = codes
    directions = config.data.directions
    if (target, source) in directions and (source, target) not in directions:
        raise UserError(f"--model {text}: this model translates {target} into {source}; write {target}-{source}={path}")
    return [ModelSource(source, target, folder)]


def _pair_and_path(text: str) -> tuple[list[str], Path]:
    """Part PAIR=PATH; without a pair all of it is the path."""
    pair, equals, path = text.partition("=")
    match = _PAIR.fullmatch(pair) if equals else None
    return ([code for code in match.groups() if code], Path(path)) if match else ([], Path(text))


def in_each_direction(folder: Path) -> list[ModelSource]:
    """List what a model translates between, by its config."""
    return [ModelSource(source, target, folder) for source, target in read_config(folder)[0].data.directions]


def model_sources(models: Sequence[str]) -> list[ModelSource]:
    """Find the models asked for, or the built-in ones."""
    named = [source for text in models for source in parse_model(text)]
    found = named or [source for folder in builtin_models() for source in in_each_direction(folder)]
    if not found:
        raise UserError("no model to serve: add --model en-de=FOLDER (a model folder or training run)")
    return found


@lru_cache(maxsize=1)
def models_fingerprint(models: tuple[str, ...]) -> str:
    """Identify all that is served by its content: replicas that say the same here answer the same."""
    folders = dict.fromkeys(found.folder for found in model_sources(models))
    return "-".join(map(model_fingerprint, folders))


def serve_model(source: str, target: str, translator: "Translator") -> ServedModel:
    """Describe a loaded translator."""
    config, pieces = translator.config, translator.tokenizer.pieces(range(translator.tokenizer.size))
    vocabulary = {piece: index for index, piece in reversed(list(enumerate(pieces)))}
    choices = tuple(sorted(set(config.train.segment_choices)))
    return ServedModel(source, target, config.model.max_segments, choices, translator, vocabulary)


def load_models(sources: Iterable[ModelSource], settings: ServeSettings) -> list[ServedModel]:
    """Load model folders, each once: the directions of one share what is in memory."""
    loaded: dict[Path, Translator] = {}
    models = []
    for where in sources:
        known = loaded.get(where.folder)
        translator = known.into(where.target) if known and known.prefix else _load(where, settings)
        loaded[where.folder] = translator
        translator.set_glossary(glossary_of(settings.glossaries, where.source, where.target))
        models.append(serve_model(where.source, where.target, translator))
    return models


def glossary_of(glossaries: Sequence[str], source: str, target: str) -> Glossary | None:
    """Read the terms of a pair: those of its own files, and of files for all pairs; the first of two counts."""
    terms: Glossary | None = None
    for text in reversed(glossaries):
        codes, path = _pair_and_path(text)
        read = Glossary.read(path)  # also where it is another pair's: mistakes are told
        terms = read.over(terms) if codes in ([], [source, target]) else terms
    return terms


def _load(where: ModelSource, settings: ServeSettings) -> "Translator":
    """Load a model folder within the bounds a worker has."""
    from recoversat.translator import Translator

    # Only exported models can bound their decoding; torch's is watched from outside (process/worker.py).
    exported = is_exported(where.folder) and settings.device in ("auto", "cpu")
    bound = settings.worker_memory // _DECODING_SHARE if settings.worker_memory and exported else None
    tagged = read_config(where.folder)[0].data.tagged
    return Translator(
        where.folder,
        target=where.target if tagged else None,
        device=settings.device,
        compute_type=cast("ComputeType", settings.compute_type),
        intra_threads=settings.threads,
        max_memory=bound,
    )


class Catalog(Generic[M]):
    """All models, by pair of languages."""

    def __init__(self, models: Iterable[M]) -> None:
        self._main: dict[tuple[str, str], M] = {}
        self._autoregressive: dict[tuple[str, str], M] = {}
        for model in models:
            shelf = self._autoregressive if model.autoregressive else self._main
            if (model.source, model.target) in shelf:
                raise UserError(f"two models for {model.source}-{model.target}: serve one, or one and its teacher")
            shelf[model.source, model.target] = model
        self.pairs = list(dict.fromkeys([*self._main, *self._autoregressive]))

    @property
    def languages(self) -> list[str]:
        """Codes of all languages, sources first."""
        return list(dict.fromkeys([source for source, _ in self.pairs] + [target for _, target in self.pairs]))

    def of(self, source: str, target: str) -> list[M]:
        shelves = (self._main, self._autoregressive)
        return [shelf[source, target] for shelf in shelves if (source, target) in shelf]

    def targets(self, source: str) -> list[str]:
        """List what a language can be translated into; itself always."""
        return sorted({source, *(target for first, target in self.pairs if first == source)})

    def main(self, source: str, target: str) -> M | None:
        """Return the model of a pair that writes several segments, if there is one."""
        return self._main.get((source, target)) or self._autoregressive.get((source, target))

    def autoregressive(self, source: str, target: str) -> M | None:
        """Return who writes one token after the other: a teacher, or a model that has learnt K = 1 too."""
        teacher, main = self._autoregressive.get((source, target)), self._main.get((source, target))
        return teacher or (main if main and 1 in main.choices else None)

    def route(self, source: str, target: str, segments: WantedSegments) -> M | None:
        """Choose the model of a pair for K segments."""
        return (self.autoregressive(source, target) if segments == 1 else None) or self.main(source, target)
