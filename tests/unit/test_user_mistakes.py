"""Mistakes that users make get one line that names the fix, before any work is done."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recoversat import Translator
from recoversat.cli import main
from recoversat.config import check_device
from recoversat.errors import UserError
from recoversat.files.storage import write_text
from recoversat.measuring.quality.metrics import chosen_metrics
from recoversat.serve.http.api_keys import read_api_keys
from recoversat.serve.work.catalog import parse_model


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(source="en", target="de")


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a", 7], {}, "text 2 is int, not str"),
        (["a\nb"], {}, "text 1 has a line break: give single lines"),
        (["a"], {"segments": True}, "neither a whole number"),
        (["a"], {"beam": 100_000}, "beam 100000: at most 100"),
        (["a"], {"beam": None}, "beam: None is no whole number from 1"),
        (["a"], {"batch_size": 2.5}, "batch_size: 2.5 is no whole number from 1"),
        (["a"], {"segments": (6, 10)}, r"segments: \(6, 10\) is neither a whole number"),
        (["a"], {"quality": ["best"]}, "quality: there are fast"),
        (["a"], {"alternatives": -1}, "alternatives: -1 is no whole number from 1"),
        (["a"], {"forced": [{}, {}]}, "forced is of 2 texts, and there are 1"),
        (["a"], {"glossary": {"a": 5}}, r"glossary, 'a': a term and its translation are text \(str\)"),
        (["a"], {"glossary": {5: "a"}}, "glossary, 5: a term"),
        (None, {}, "takes a list of texts, not NoneType"),
        ({"text": "a"}, {}, "takes a list of texts, not dict"),
        (["a " * 400], {"force": ["1:1=Ein"]}, r"line 1: too long to force words in it \(\d+ pieces, at most 128\)"),
    ],
)
def test_translate_says_what_is_wrong_with_its_arguments(
    translator: Translator, texts: list[Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        translator.translate(texts, **options)


def test_translate_takes_what_can_only_mean_one_thing(translator: Translator) -> None:
    texts = ["Good morning!", "Good night!"]
    expected, two = translator.translate(texts, segments=2), np.int64(2)
    assert translator.translate((text for text in texts), segments=two) == expected  # type: ignore[arg-type]
    assert list(translator.translate_iterable(texts, segments=two)) == expected  # type: ignore[arg-type]
    (shown,) = translator.translate(texts[:1], alternatives=10**6)
    assert len(shown.segments[0].alternatives[0]) == translator.tokenizer.size  # all there are


def test_one_text_is_not_taken_for_a_list_of_letters(translator: Translator) -> None:
    with pytest.raises(UserError, match=r"translate_documents takes a list of texts, not str"):
        translator.translate_documents("Good morning!")
    with pytest.raises(UserError, match="read from text"):
        translator.translate_documents([5])  # type: ignore[type-var]
    with pytest.raises(UserError, match="score_batch takes a list of texts, not str"):
        translator.score_batch("Good morning!", "Guten Morgen!")
    with pytest.raises(UserError, match="1 sources and 2 targets; give one for each"):
        translator.score_batch(["Good morning!"], ["Guten Morgen!", "Morgen!"])


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"window": 0}, {"beam": 0}])
def test_a_stream_is_refused_before_it_is_read(translator: Translator, wrong: dict[str, int]) -> None:
    with pytest.raises(UserError, match="no whole number from 1"):
        translator.translate_iterable(iter(["a"]), **wrong)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="takes a list of texts"):
        translator.translate_iterable("abc")


def test_a_k_that_was_never_learnt_is_said_once(translator: Translator, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert translator.segments_for(5) == 5
            small = translator.config.model_copy(
                update={"train": translator.config.train.model_copy(update={"segments": 3})}
            )
            other = Translator.of(translator.engine, translator.tokenizer, small)
            assert other.segments_for(7) == 7
            assert other.segments_for(3) == 3
    assert [record.message for record in caplog.records] == [
        "this model was trained for K = 3; K = 7 will translate badly"
    ]


def test_devices_and_tokenizers_that_do_not_exist() -> None:
    with pytest.raises(UserError, match="device gpu: there is no such device; use cpu, cuda or auto"):
        check_device("gpu")
    with pytest.raises(UserError, match="device gpu"):
        Translator(source="en", target="de", device="gpu")
    with pytest.raises(UserError, match="--tokenize foo: sacreBLEU has no such tokenizer"):
        chosen_metrics([], "foo")
    with pytest.raises(UserError, match="--metric blue: no such metric; there are bleu, chrf, ter, "):
        chosen_metrics(["blue"])
    with pytest.raises(UserError, match="compute type float16 is for models on a GPU; use float32"):
        Translator(source="en", target="de", device="cpu", compute_type="float16")


def test_files_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder; name a file"):
        write_text(tmp_path, "x")
    (tmp_path / "keys").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not a text file in UTF-8"):
        read_api_keys(tmp_path / "keys")


def test_a_file_is_not_translated_over_itself(translator: Translator, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Good morning!\n")
    with pytest.raises(UserError, match="writing it would destroy"):
        translator.translate_file(path, tmp_path / "." / "a.txt")
    assert path.read_text() == "Good morning!\n"


def test_a_direction_turned_around_is_not_served(tmp_path: Path, tokenizer: Any, translator: Translator) -> None:
    from recoversat.files.model_folder import write_description

    one_way = translator.config.model_copy(
        update={"data": translator.config.data.model_copy(update={"both_directions": False, "tokenizer": "bpe"})}
    )
    write_description(tmp_path, one_way, tokenizer, {})
    assert parse_model(f"en-de={tmp_path}")
    with pytest.raises(UserError, match="this model translates en into de; write en-de="):
        parse_model(f"de-en={tmp_path}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "c", "--out", "o", "--init-decoder"], "--init-decoder starts from a teacher's decoder"),
        (["translate", "--trace", "f", "--out", "f"], "--trace and --out are both f: name two files"),
        (["translate", "--show", "tokens"], "there is only --show segments"),
        (["translate", "--jsonl", "--show", "segments"], "--jsonl goes without"),
        (["translate", "--format", "text", "--trace", "f"], "--format text goes without"),
        (["translate", "--exact", "--quality", "best"], "--exact cannot be combined with --quality best"),
        (["translate", "--quality", "good"], "quality"),
        (["translate", "--from", "fr"], "no built-in model translates from fr"),
        (["translate", "--compute-type", "int4"], "unknown compute type 'int4'; choose default, int8"),
        (["translate", "in", "--workers", "2", "--out", "o", "--show", "segments"], "take no options that show"),
        (["average", "r", "--out", "o", "--last", "0"], "--last"),
        (["prepare", "--out", "o", "--hold-out", "-5"], "--hold-out"),
        (["serve", "--max-memory", "much"], "write e.g. 512M or 2G"),
        (["serve", "--max-memory", "0"], "write e.g. 512M or 2G"),
    ],
)
def test_options_that_cannot_be_meant(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["recoversat", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def app(prog_name: str) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("recoversat.cli.app", app)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "this needs torch: pip install 'recoversat[train]'" in capsys.readouterr().err
