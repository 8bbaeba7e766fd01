"""Settings: the paper's presets, who wins over whom, and errors that name the fix."""

from pathlib import Path

import pytest

from recoversat.config import PRESETS, Config, load_config, parse_config, to_yaml
from recoversat.errors import UserError


@pytest.mark.parametrize(
    ("preset", "d_model", "d_hidden", "layers", "heads"),
    [("iwslt16", 278, 507, 5, 2), ("wmt14", 512, 512, 6, 8), ("wmt16", 512, 512, 6, 8)],
)
def test_presets_are_the_papers(preset: str, d_model: int, d_hidden: int, layers: int, heads: int) -> None:
    config = load_config(preset=preset)
    model = config.model
    assert (model.d_model, model.d_hidden, model.encoder_layers, model.decoder_layers, model.n_heads) == (
        d_model, d_hidden, layers, layers, heads,
    )  # fmt: skip
    assert (model.dropout, config.train.label_smoothing, config.data.vocab_size) == (0.1, 0.15, 40_000)
    assert (config.train.random_prob, config.train.anneal, config.train.repeat_prob) == (1.0, True, 0.5)
    assert (config.train.clip_norm, config.train.weight_decay) == (None, 0)
    assert not any(value is True for name, value in config.decode if "shortlist" not in name)  # nothing is repaired
    assert config.decode.beam == 4  # the teacher's, when it distils


def test_schedules_of_the_presets() -> None:
    linear = load_config(preset="iwslt16").train
    assert (linear.schedule, linear.learning_rate, linear.final_learning_rate) == ("linear", 3e-4, 1e-5)
    for name in ("wmt14", "wmt16"):
        warm = load_config(preset=name).train
        assert (warm.schedule, warm.warmup, warm.learning_rate) == ("inverse_sqrt", 4000, None)
    deep = load_config(preset="deep-shallow").model
    assert (deep.encoder_layers, deep.decoder_layers) == (12, 1)


def test_tiny_is_small_and_learns_every_k() -> None:
    config = load_config(preset="tiny")
    assert (config.model.encoder_layers, config.model.decoder_layers) == (6, 2)
    assert config.model.d_model % 64 == config.model.d_hidden % 64 == 0  # Marian's int8 products want that
    assert min(config.train.segment_choices) == 1
    assert max(config.train.segment_choices) == config.model.max_segments


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_every_preset_survives_being_saved(preset: str, tmp_path: Path) -> None:
    config = load_config(preset=preset)
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    assert load_config(tmp_path / "config.yaml") == config


def test_command_line_wins_over_file_wins_over_preset(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("preset: small\ntrain: {steps: 7, seed: 5}\n")
    config = load_config(path, overrides=["train.seed=9", "train.learning_rate=3e-4", "train.segments=[1, 2, 5]"])
    assert (config.model.d_model, config.train.steps, config.train.seed) == (128, 7, 9)
    assert (config.train.learning_rate, config.train.segment_choices) == (3e-4, [1, 2, 5])
    assert load_config(path, preset="iwslt16").model.d_model == 278


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train": {"random_prbo": 0.5}}, "train.random_prbo: no such key; did you mean random_prob?"),
        ({"modle": {}}, "modle: no such key; did you mean model?"),
        ({"train": {"xyzzy": 1}}, "train.xyzzy: no such key; there are: segments, "),
        ({"train": {"repeat_prob": 1.5}}, "train.repeat_prob: Input should be less than or equal to 1 (got 1.5)"),
        ({"model": {"d_model": 278, "n_heads": 8}}, "n_heads = 8 does not divide d_model = 278"),
        ({"train": {"segments": 20}}, "K = 20 but model.max_segments is 10"),
        ({"train": {"segments": []}}, "segments must be one number or a list"),
    ],
)
def test_mistakes_name_the_fix(values: dict, message: str) -> None:
    with pytest.raises(UserError) as error:
        parse_config(values)
    assert message in str(error.value)


def test_bad_files_and_overrides_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such config file"):
        load_config(tmp_path / "missing.yaml")
    (tmp_path / "bad.yaml").write_text("train: [1, 2")
    with pytest.raises(UserError, match="not valid YAML"):
        load_config(tmp_path / "bad.yaml")
    with pytest.raises(UserError, match="preset 'huge' does not exist"):
        load_config(preset="huge")
    with pytest.raises(UserError, match=r"section\.key=value, e\.g\. (.*)") as error:
        load_config(overrides=["steps=3"])
    assert load_config(overrides=[str(error.value).rpartition(" ")[2]]).model.dropout == 0.3  # the advice is good
    with pytest.raises(UserError, match=r"--set train\.segments=\[1, 2: cannot read '\[1, 2'"):
        load_config(overrides=["train.segments=[1, 2"])


def test_every_field_is_explained() -> None:
    for section in (Config.model_fields[name].annotation for name in ("data", "model", "train", "decode")):
        assert all(field.description for field in section.model_fields.values())
