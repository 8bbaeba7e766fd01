"""Marian beside ours: untrained models of a size, and how a folder of its own is read."""

from pathlib import Path

import numpy as np
import pytest

from recoversat.errors import UserError
from recoversat.measuring.peers import peer_of
from recoversat.measuring.peers.marian import Marian, _arrays, _precision
from recoversat.measuring.specs import SystemSpec
from recoversat.measuring.speed.untrained import random_weights, sentences, untrained_config
from recoversat.text.tokenizer import BpeTokenizer
from recoversat.vocab import SPECIAL_PIECES

pytest.importorskip("pymarian")

SIZE = "d_model=64,d_hidden=128,n_heads=4,encoder_layers=2,decoder_layers=2"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    config = untrained_config(SIZE, 1000, [3])
    tokenizer = BpeTokenizer([*SPECIAL_PIECES, *(f"w{word}" for word in range(1000 - len(SPECIAL_PIECES)))])
    out = tmp_path_factory.mktemp("marian")
    written = Marian.write_untrained(out, random_weights(config.model), config, tokenizer, "cpu")
    return {name: path for path, name in written}


def load(path: Path, beam: int = 1) -> Marian:
    return Marian(SystemSpec("m", str(path), beam=beam), threads=1)


@pytest.mark.parametrize("name", ["int8", "int8 ssru", "int8 ssru shortlist"])
def test_an_untrained_model_writes_as_many_words_as_it_should(folders: dict[str, Path], name: str) -> None:
    assert peer_of(str(folders[name])) is Marian
    for beam in (1, 4):
        marian = load(folders[name], beam)
        for size, length in ((5, 5), (5, 3), (12, 25)):
            written = marian.translate(sentences(3, size, 1000), 2, length)
            assert [len(one.ids) for one in written] == [length] * 3
            assert [len(one.text.split()) for one in written] == [length] * 3
    assert (marian.facts["precision"], marian.facts["beam"], marian.facts["segments"]) == ("int8", 4, 1)
    assert str(marian.facts["engine"]).startswith("marian 1.")


def test_an_untrained_model_never_ends_by_itself() -> None:
    config = untrained_config(SIZE, 64, [3]).model
    model = _arrays(random_weights(config), config, ssru=False, tied=False)
    logits = 100 * np.abs(model["decoder_ff_logit_out_W"]).sum(axis=0) + model["decoder_ff_logit_out_b"][0]
    assert logits.argmin() == 0  # even with inputs as large as they never are
    assert logits[0] < -1000


def test_a_shortlist_bounds_what_may_be_written(folders: dict[str, Path]) -> None:
    few = folders["int8 ssru shortlist"]
    may: dict[str, set[str]] = {}
    for line in (few / "lex.txt").read_text().splitlines():
        target, source, _ = line.split()
        may.setdefault(source, set()).add(target)
    frequent = (few / "vocab.txt").read_text().splitlines()[:57]  # 50, and up to 7 that fill the last eight
    allowed = {*frequent, "w150", "w160", *may["w150"], *may["w160"], *may["</s>"]}
    written = load(few).translate(["w150 w160", "w160 w150 w150", "w150"], 1, 60)
    assert {word for one in written for word in one.text.split()} <= allowed
    assert len(allowed) < 250


def test_lines_come_back_in_their_order_and_empty_ones_stay_empty(folders: dict[str, Path]) -> None:
    lines = ["w1 w2 w3", "", "w9 w8 w7 w6 w5", " "]
    told: list[int] = []
    marian = load(folders["int8"])
    together = marian.translate(lines, 4, done=told.append)
    alone = [marian.translate([line], 1)[0].text for line in lines]
    assert all(one.text.startswith(text) for one, text in zip(together, alone, strict=True))  # cut at another length
    assert len({*alone}) == 3
    assert [bool(one.text) for one in together] == [True, False, True, False]
    assert (told, marian.source_lengths(lines), marian.translate([], 4)) == ([4], [3, 0, 5, 0], [])


def test_the_settings_follow_the_weights(folders: dict[str, Path]) -> None:
    before = load(folders["int8"]).settings()
    assert before == load(folders["int8"]).settings()
    assert before["weights"] != load(folders["int8 ssru"]).settings()["weights"]


def test_what_marian_cannot_do_is_said(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(folders["int8"])
    with pytest.raises(UserError, match="Marian writes one segment; leave out :segments=5"):
        Marian(SystemSpec("m", path, segments=5))
    with pytest.raises(UserError, match="for CPUs; measure it with --device cpu"):
        Marian(SystemSpec("m", path), device="cuda")
    with pytest.raises(UserError, match="a b: Marian takes no paths with blanks"):
        Marian(SystemSpec("m", "a b"))
    monkeypatch.setattr("recoversat.measuring.system.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"Marian is not installed: pip install 'recoversat\[peers\]'"):
        Marian(SystemSpec("m", path))


def test_a_model_in_float32_says_so(folders: dict[str, Path], tmp_path: Path) -> None:
    np.savez(tmp_path / "model.npz", x=np.zeros(1))
    assert _precision(tmp_path / "model.npz") == "float32"
    assert _precision(folders["int8"] / "model.bin") == "int8"
