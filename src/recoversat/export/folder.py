"""Write a model folder that translates without torch, and let it prove that it still says the same."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch

from recoversat.config import Config, DataConfig
from recoversat.data.prepare import TextPairs
from recoversat.engines.engine import Engine
from recoversat.engines.loading import ComputeType, EngineOptions, engine_for, load_engine
from recoversat.errors import UserError
from recoversat.export.calibration import calibrate
from recoversat.export.checks import (
    Agreement,
    ExportReport,
    compare_bleu,
    compare_tokens,
    export_card,
    refuse_loss,
    refuse_other_weights,
)
from recoversat.export.int8 import quantised
from recoversat.export.onnx import export_fp32, export_int8
from recoversat.export.shortlist import add_shortlist, check_has_steps, corpus_of, pairs_of
from recoversat.files.int8 import INT8, check_shape, write_int8
from recoversat.files.model_folder import (
    ONNX,
    WEIGHTS,
    read_config,
    resolve_model,
    weights_fingerprint,
    write_description,
)
from recoversat.files.storage import atomic_folder, refuse_existing, write_json
from recoversat.measuring.quality.validation import translate_valid
from recoversat.model.build import Model
from recoversat.model.exported import exported_weights
from recoversat.model.weights import load_model
from recoversat.text.directions import directed, encode_directed, prefix_of
from recoversat.text.tokenizer import Tokenizer, join_subwords, load_tokenizer
from recoversat.translator import Translator
from recoversat.vocab import N_SPECIAL

PrecisionName = Literal["fp32", "int8"]
EXPORT = "export.json"
_COMPUTE: dict[PrecisionName, ComputeType] = {"fp32": "float32", "int8": "int8"}
_SAMPLE = 32  # sentences whose tokens are compared
_CALIBRATION = 64  # sentences that give int8 its scales
BATCH = 32


@dataclass(frozen=True)
class ValidationText:
    """Sentences and their translations, which show what a precision costs."""

    src: list[str]
    tgt: list[str]


@dataclass(frozen=True)
class Original:
    folder: Path
    model: Model
    config: Config
    tokenizer: Tokenizer

    @property
    def engine(self) -> Engine:
        return engine_for(self.model, torch.device("cpu"))

    def translate(self, valid: ValidationText, engine: Engine, segments: int | None = None) -> list[str]:
        """Translate the whole validation text with an engine, this one's or one that was made of it."""
        return translate_valid(Translator.of(engine, self.tokenizer, self.config), valid.src, BATCH, segments)


def export_folder(
    model: Path, out: Path, precisions: Sequence[PrecisionName], valid: ValidationText | None, *, force: bool = False,
    pairs_from: Path | None = None,
) -> ExportReport:  # fmt: skip
    """Write `out` whole, or nothing where a check fails; `force` replaces what is there and overrules checks.

    A shortlist is made where `pairs_from` names a corpus.
    """
    if pairs_from:
        check_has_steps(model)
    original = load_original(model)
    check_place(out, original.folder, force)
    if "int8" in precisions:
        check_shape(original.config.model)
    _, facts = read_config(original.folder)
    with atomic_folder(out, replace=force) as folder:
        write_description(folder, original.config, original.tokenizer, facts)
        report = _write_weights(original, folder, precisions, valid, force)
        write_json(folder / EXPORT, report.as_json())
        (folder / "README.md").write_text(export_card(original.config, facts, report), encoding="utf-8")
        if pairs_from:
            report = replace(report, shortlist=add_shortlist(folder, pairs_of(folder, pairs_from, None)))
    return report


def precisions_of(names: Sequence[str] | None, model: Path) -> tuple[PrecisionName, ...]:
    """Check the names of precisions; without any, take all that a model has the sizes for."""
    known: tuple[PrecisionName, ...] = get_args(PrecisionName)
    for name in names or ():
        if name not in known:
            raise UserError(f"--precision {name}: there are {' and '.join(known)}")
    if not names:
        try:
            check_shape(read_config(resolve_model(model))[0].model)
        except UserError as error:
            print(f"note: fp32 alone is exported: {error}", file=sys.stderr)
            return ("fp32",)
    return tuple(name for name in known if not names or name in names)


def validation_text(model: Path, corpus: Path | None, files: TextPairs | None) -> ValidationText | None:
    """Read the validation text of a corpus or of two files; None where there is none."""
    if corpus and files:
        raise UserError("give either --corpus, or --valid-src and --valid-tgt")
    folder = resolve_model(model)
    if corpus:
        opened = corpus_of(model, corpus)
        pairs = list(zip(opened.valid_src, opened.valid_tgt, strict=True))
    else:
        pairs = list(files or ())
    if not pairs:
        return None
    config, _ = read_config(folder)
    split = config.data.tokenizer == "bpe"  # translations come joined; so must what they are compared with
    return ValidationText([src for src, _ in pairs], [join_subwords(tgt) if split else tgt for _, tgt in pairs])


def load_original(model: Path) -> Original:
    folder = resolve_model(model)
    config, _ = read_config(folder)
    if not config.model.plain:
        raise UserError(f"{model}: imported layers (post-norm, swish) cannot be exported; train a student with --size")
    network, _ = load_model(folder)
    return Original(folder, network.eval(), config, load_tokenizer(folder))


def check_place(out: Path, model: Path, force: bool) -> None:
    """Refuse to write over the model itself, or over something else that was not to be replaced."""
    inside, place = model.resolve(), out.resolve()
    if place == inside or place in inside.parents:
        raise UserError(f"{out} holds the model that is exported; choose another folder")
    refuse_existing(out, force)


def _write_weights(
    original: Original, out: Path, precisions: Sequence[PrecisionName], valid: ValidationText | None, force: bool
) -> ExportReport:
    """Write each precision and compare it with the original, by the engine that will be used."""
    weights = {name: tensor.numpy() for name, tensor in original.model.state_dict().items()}
    config, choices = original.config.model, sorted(set(original.config.train.segment_choices))
    if "fp32" in precisions:
        export_fp32(weights, config, out / ONNX)
    text, learnt_from = sample_sources(original, valid, _CALIBRATION)
    if "int8" in precisions:
        few = sorted({choices[0], choices[len(choices) // 2], choices[-1]})
        write_int8(out, quantised(weights, config, calibrate(original.model, learnt_from, few)), config)
        export_int8(config, out / ONNX)
        refuse_other_weights(weights, {name: tensor.numpy() for name, tensor in exported_weights(out).items()})
    engines = {name: load_engine(out, config, EngineOptions("cpu", _COMPUTE[name])) for name in precisions}
    sample, sources = sample_sources(original, valid, _SAMPLE)
    agreements = [
        compare_tokens(original.engine, engine, sources, k, name, original.config.decode.extra_steps)
        for name, engine in engines.items()
        for k in choices
    ]
    _refuse_other_tokens(agreements, force)
    int8 = None
    if "int8" in engines and valid:
        wanted, got = (original.translate(valid, engine) for engine in (original.engine, engines["int8"]))
        int8 = compare_bleu(wanted, got, valid.tgt)
        refuse_loss(int8, force)
    source = {
        "weights": weights_fingerprint(original.folder),
        "bytes": (original.folder / WEIGHTS).stat().st_size,
        "parameters": sum(array.size for array in weights.values()),
    }
    return ExportReport(source, sample, agreements, int8, _sizes(out, precisions), len(learnt_from), text)


def _sizes(out: Path, precisions: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the bytes of each precision's files."""
    own = {"int8": [INT8, f"{ONNX}/int8/*"], "fp32": [f"{ONNX}/fp32/*"]}
    found = {name: [path for pattern in own[name] for path in sorted(out.glob(pattern))] for name in precisions}
    return {name: {str(path.relative_to(out)): path.stat().st_size for path in paths} for name, paths in found.items()}


def sample_sources(original: Original, valid: ValidationText | None, n: int = _SAMPLE) -> tuple[str, list[list[int]]]:
    """Take n sentences from all over the validation text, or make some up; also say which."""
    if chosen := _spread(original, valid, n):
        return "validation text", chosen
    return "random ids, as there is no validation text", made_up_sources(original.tokenizer, original.config.data, n)


def made_up_sources(tokenizer: Tokenizer, data: DataConfig, n: int) -> list[list[int]]:
    """Draw ids for n sentences, in turn for each direction: without its tag a tagged model computes other values."""
    rng = np.random.default_rng(1)
    tags = [tokenizer.encode([""], prefix_of(data, into))[0] for _, into in data.directions]
    lengths = rng.integers(1, 40, n).tolist()
    return [
        [*tags[i % len(tags)], *rng.integers(N_SPECIAL, tokenizer.size, length).tolist()]
        for i, length in enumerate(lengths)
    ]


def _spread(original: Original, valid: ValidationText | None, n: int) -> list[list[int]]:
    """Draw n sentences, or all there are, of the validation text; a fixed stride might meet one direction only."""
    data = original.config.data
    each = directed([text for text in valid.src if text.strip()] if valid else [], data, data.tgt_lang)
    drawn = np.random.default_rng(1).permutation(len(each))[:n]
    return encode_directed([each[i] for i in sorted(drawn)], original.tokenizer, data)


def _refuse_other_tokens(agreements: Sequence[Agreement], force: bool) -> None:
    for one in agreements:
        if one.precision == "fp32" and one.first_difference is not None and not force:
            raise UserError(
                f"the exported model is not the original ({one.as_text()}, the first other one is sentence "
                f"{one.first_difference + 1}); nothing was written; where few sentences differ, by ties, pass --force"
            )
