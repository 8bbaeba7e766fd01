"""Sensible settings by the size of a corpus, for those who give none."""

import sys
from pathlib import Path
from typing import Any

import yaml

from recoversat.config import PAPER_PRESETS, Config, ModelConfig, load_config, preset_name
from recoversat.data.prepare import TextPairs, optional_pairs
from recoversat.errors import UserError
from recoversat.files.storage import unpacked_name
from recoversat.pipeline.fit_job import HELD_OUT, FitJob
from recoversat.pipeline.options import FitOptions

# Whatever the size: what a reader wants. The paper repairs nothing, so its presets do not either.
_DECODE = {"join_overlaps": True, "never_empty": True, "cut_loops": True}


def settings_for(n_pairs: int) -> dict[str, dict[str, Any]]:
    """Return settings that suit a corpus of so many pairs, as a config file would give them.

    >>> settings_for(29_000)["model"]["d_model"]
    256
    """
    by_size = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    settings: dict[str, dict[str, Any]] = next(found for limit, found in by_size.items() if n_pairs <= limit)
    return settings | {"decode": _DECODE}


def with_rhythm(config: Config, untouched: Config) -> Config:
    """Save twenty times and validate ten times in a run, whatever its length, where the user left that untouched."""
    steps = config.train.steps
    rhythm = {"save_every": max(steps // 20, 1), "validate_every": max(steps // 10, 1)}
    mine = {key: n for key, n in rhythm.items() if getattr(config.train, key) == getattr(untouched.train, key)}
    return config.model_copy(update={"train": config.train.model_copy(update=mine)})


def fit_job(asked: FitOptions) -> FitJob:
    """Settle everything `fit` needs: what the user gave wins over what the size of the corpus suggests.

    A preset of the paper is its recipe throughout: the student takes only the teacher's encoder and embeddings
    (unless `encoder_only` says otherwise), and nothing it writes is repaired.
    """
    segments, config, preset, overrides = asked.segments, asked.config, asked.preset, asked.settings or []
    pairs, valid = TextPairs(asked.src, asked.tgt), optional_pairs(asked.valid_src, asked.valid_tgt, "--valid")
    if segments and any(one.startswith("train.segments=") for one in overrides):
        raise UserError("K is named twice, by --segments and by --set train.segments: leave one of them out")
    n_pairs = sum(1 for _ in pairs)
    as_in_the_paper = preset_name(config, preset) in PAPER_PRESETS
    base = {} if as_in_the_paper else {"decode": _DECODE} if config or preset else settings_for(n_pairs)
    suffixes = [unpacked_name(path).name.rpartition(".")[2] for path in (pairs.src, pairs.tgt or pairs.src)]
    base = base | {"data": base.get("data", {}) | dict(zip(("src_lang", "tgt_lang"), suffixes, strict=True))}
    k = [f"train.segments={segments}"] if segments else []
    k += [f"model.max_segments={segments}"] if segments and segments > ModelConfig().max_segments else []

    def settled(*more: str) -> Config:
        chosen = load_config(config, preset, [*k, *overrides, *more], base)
        return with_rhythm(chosen, load_config(None, chosen.preset, None, base))

    student, teacher = settled(), settled("train.segments=1", *(asked.teacher_set or []))
    return FitJob(
        pairs, asked.out, student, teacher, valid, optional_pairs(asked.test_src, asked.test_tgt, "--test"),
        hold_out=0 if valid else min(1000, n_pairs // HELD_OUT),
        beam=student.decode.beam,
        device=asked.device,
        say=lambda text: print(text, file=sys.stderr),
        encoder_only=as_in_the_paper if asked.encoder_only is None else asked.encoder_only,
    )  # fmt: skip
