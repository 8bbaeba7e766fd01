"""What a model of ours says of itself: everything that decides what it writes."""

from typing import Any, get_args

import pytest
from typer.testing import CliRunner

from recoversat.cli import app
from recoversat.config import DecodeConfig
from recoversat.errors import UserError
from recoversat.files.model_folder import WEIGHTS, builtin_model, write_description
from recoversat.measuring.own import OwnSystem, load_system, p_label
from recoversat.measuring.specs import SystemSpec


def other_value(key: str) -> Any:
    """Make up another value for a setting, of whatever type."""
    field = DecodeConfig.model_fields[key]
    if field.default is None:
        return -1.0 if float in get_args(field.annotation) else 2
    if choices := get_args(field.annotation):
        return next(choice for choice in choices if choice != field.default)
    return not field.default if isinstance(field.default, bool) else field.default + 1


@pytest.mark.parametrize("key", sorted(DecodeConfig.model_fields))
@pytest.mark.parametrize("k", [3, 1])
def test_every_setting_of_decoding_is_in_the_signature(key, k, scripted, tokenizer, tmp_path):
    translator = scripted({"a": ["a EOS"] * k})
    write_description(tmp_path, translator.config, tokenizer, {})
    (tmp_path / WEIGHTS).write_bytes(b"weights")

    def settings(beam):
        return OwnSystem(SystemSpec("s", str(tmp_path), beam=beam), tmp_path, translator).settings()

    before = settings(beam=1)
    if key == "beam":  # the model's own is never read: what counts is what was asked for
        assert (settings(beam=4) != before) == (k == 1)
        return
    translator.set_decoding(**{key: other_value(key)})
    assert settings(beam=1)[key] == other_value(key) != before[key]


@pytest.mark.parametrize("name", [WEIGHTS, "shortlist.npz", "confidence.json"])
def test_what_a_model_depends_on_is_in_the_signature(name, scripted, tokenizer, tmp_path):
    translator = scripted({"a": ["a EOS"]})
    write_description(tmp_path, translator.config, tokenizer, {})
    (tmp_path / WEIGHTS).write_bytes(b"weights")
    system = OwnSystem(SystemSpec("s", str(tmp_path)), tmp_path, translator)
    before = system.settings()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"another one")
    assert system.settings() != before


def test_what_is_usual_gives_way_to_a_k_that_is_named(scripted, tokenizer, tmp_path):
    translator = scripted({"a": ["a EOS"]})
    translator.set_decoding(usual="exact")
    write_description(tmp_path, translator.config, tokenizer, {})
    (tmp_path / WEIGHTS).write_bytes(b"weights")
    asked = [SystemSpec("s", str(tmp_path), segments=k) for k in (None, "auto")]
    assert [OwnSystem(spec, tmp_path, translator).settings()["usual"] for spec in asked] == ["exact", "fast"]
    translator.set_decoding(quality="exact")  # as `translate --quality exact`, which names no K
    assert [OwnSystem(spec, tmp_path, translator)._named for spec in asked] == [None, "auto"]


def test_a_beam_writes_one_segment():
    system = load_system(SystemSpec("s", str(builtin_model(None, "de")), beam=2, target="de"), "cpu", 1)
    assert (system.settings()["K"], system.settings()["beam"]) == (1, 2)
    assert system.translate(["Good morning!"], 1)[0].text == "Guten Morgen!"


def test_p_is_spelled_as_in_the_paper():
    assert [p_label(1, True), p_label(0.5, False), p_label(0.5, True)] == ["1->0", "0.5", "0.5->0"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"repairs": "model", "join_overlaps": True}),
        ({"decode": {"join_overlaps": "false"}}, {"repairs": "model", "join_overlaps": False}),
        ({"decode": {"repairs": "none"}}, {"repairs": "none", "join_overlaps": True}),
        ({"decode": {"extra_steps": "9", "cut_loops": "false"}}, {"extra_steps": 9, "cut_loops": False}),
    ],
)
def test_the_spec_decides_how_a_model_decodes(options, expected):
    folder = builtin_model(None, "de")
    system = load_system(SystemSpec("s", str(folder), 5, **options), "cpu", 1)
    settings = system.settings()
    assert {key: settings[key] for key in expected} == expected
    assert (settings["K"], settings["beam"], settings["threads"]) == (5, None, 1)


@pytest.mark.parametrize("given", [[], ["--no-repairs"]])
def test_one_option_switches_the_repairs_of_all_models_off(given, tmp_path, monkeypatch):
    asked = []

    def stop(*arguments, **_):
        asked.append(arguments[0])
        raise UserError("enough")

    monkeypatch.setattr("recoversat.measuring.quality.run.run_evaluation", stop)
    monkeypatch.setattr("recoversat.measuring.speed.run.bench_text", stop)
    systems = ["--system", f"a={tmp_path}", "--system", f"b={tmp_path}:repairs=model", *given]
    runner = CliRunner()
    runner.invoke(app, ["evaluate", *systems, "--test", "t=x,y", "--out", "out"])
    runner.invoke(app, ["bench", *systems, "--src", "x", "--out", "out"])
    runner.invoke(app, ["bench", "--to", "de", "--src", "x", "--out", "out", *given])
    evaluated, timed, builtin = asked
    expected = ["none", "none"] if given else [None, "model"]
    assert [spec.decode.get("repairs") for spec in [*evaluated.systems, *timed]] == expected * 2
    assert {spec.decode.get("repairs") for spec in builtin} == {expected[0]}
