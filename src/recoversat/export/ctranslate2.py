"""Write a folder that CTranslate2 loads, and let it prove that it says what our own engine says."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from string import Template

import numpy as np

from recoversat import __version__
from recoversat.engines.engine import Options
from recoversat.errors import UserError
from recoversat.export.checks import compare_bleu, refuse_loss
from recoversat.export.ctranslate2_writer import MODEL, POSITIONS, import_ctranslate2, write_ctranslate2
from recoversat.export.folder import (
    BATCH,
    Original,
    PrecisionName,
    ValidationText,
    check_place,
    load_original,
    sample_sources,
)
from recoversat.files.model_folder import read_config, resolve_model
from recoversat.files.storage import atomic_folder
from recoversat.measuring.peers.ctranslate2 import CTranslate2
from recoversat.measuring.specs import SystemSpec
from recoversat.text.directions import directed, translate_directed
from recoversat.vocab import EOS


def export_ctranslate2(
    model: Path, out: Path, precisions: Sequence[PrecisionName], valid: ValidationText | None, *, force: bool = False
) -> str:
    """Write `out` whole, or nothing where a check fails, and say what was found; `force` replaces and overrules."""
    import_ctranslate2()
    if len(precisions) > 1:
        raise UserError("--format ctranslate2 writes one precision a folder: give one --precision, int8 or fp32")
    precision = precisions[0] if precisions else "fp32"  # which its engine turns into int8 itself
    _check_autoregressive(model)
    original = load_original(model)
    check_place(out, original.folder, force)
    with atomic_folder(out, replace=force) as folder:
        lines = [_check_fp32(original, valid, force)]
        _write(original, folder, precision)
        if valid:
            lines += _measure(original, folder, precision, valid, force)
        lines.append(f"{precision}: {(folder / MODEL).stat().st_size / 1e6:.1f} MB")
        (folder / "README.md").write_text(_card(original, precision, lines), encoding="utf-8")
    return "\n".join(lines)


def _check_autoregressive(model: Path) -> None:
    config, _ = read_config(resolve_model(model))
    if config.model.kind != "segments":
        raise UserError(f"{model}: CTranslate2 has no models of kind {config.model.kind!r}; name a teacher")
    if 1 not in (choices := config.train.segment_choices):
        raise UserError(
            f"{model}: CTranslate2 writes token after token, this model has only learnt K = {max(choices)}; name its"
            f" teacher, or train with train.segments=[1,{max(choices)}]"
        )


def _write(original: Original, folder: Path, precision: PrecisionName) -> None:
    tokenizer = original.tokenizer
    weights = {name: tensor.numpy() for name, tensor in original.model.state_dict().items()}
    write_ctranslate2(weights, original.config, tokenizer.pieces(range(tokenizer.size)), folder, precision)
    tokenizer.save(folder)


def _agreement(precision: str, wanted: Sequence[object], got: Sequence[object], text: str) -> tuple[int, str]:
    """Count what comes out the same, and say it in a line."""
    same = sum(one == other for one, other in zip(wanted, got, strict=True))
    return same, f"{precision}: same as torch, greedy, in {same} of {len(wanted)} sentences ({text})"


def _check_fp32(original: Original, valid: ValidationText | None, force: bool) -> str:
    """Compare the tokens of sample sentences in fp32, even where int8 is what is kept."""
    said, sources = sample_sources(original, valid)
    ones = np.ones(len(sources), dtype=np.int64)
    decoded = original.engine.decode(sources, ones, Options(original.config.decode.extra_steps))
    wanted = [[token for token in one.segments[0] if token != EOS] for one in decoded]
    with tempfile.TemporaryDirectory() as name:
        _write(original, Path(name), "fp32")
        got = CTranslate2(SystemSpec("exported", name, compute="float32")).translate_ids(sources)
    same, line = _agreement("fp32", wanted, got, said)
    if same < len(sources) and not force:
        raise UserError(
            f"CTranslate2 does not write what torch writes ({same} of {len(sources)} sentences the same); "
            "nothing was written; pass --force to keep it all the same"
        )
    return line


def _measure(
    original: Original, folder: Path, precision: PrecisionName, valid: ValidationText, force: bool
) -> list[str]:
    """Translate the whole validation text with both, greedily."""

    def theirs(into: str, texts: list[str]) -> list[str]:
        peer = CTranslate2(SystemSpec("exported", str(folder), target=into))
        return [one.text for one in peer.translate(texts, BATCH)]

    data = original.config.data
    wanted = original.translate(valid, original.engine, segments=1)
    got = translate_directed(directed(valid.src, data, data.tgt_lang), theirs)
    change = compare_bleu(wanted, got, valid.tgt)
    refuse_loss(change, force)
    return [_agreement(precision, wanted, got, "whole validation text")[1], f"{precision}: greedy {change.as_text()}"]


def _card(original: Original, precision: str, lines: Sequence[str]) -> str:
    card = Template(Path(__file__).with_name("card_ctranslate2.md").read_text(encoding="utf-8"))
    found = "\n".join(f"- {line}" for line in lines)
    facts = {"version": __version__, "precision": precision, "positions": POSITIONS, "found": found}
    return card.substitute(facts, languages=original.config.data.languages)
