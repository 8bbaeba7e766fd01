"""Models of both directions: every source has a tag, its own or that of the direction asked for."""

from pathlib import Path

import pytest
import torch

from recoversat.config import Config, parse_config
from recoversat.directions import encode_tagged, prefix_of, split_tag
from recoversat.errors import UserError
from recoversat.model.build import build_model
from recoversat.model.weights import save_weights
from recoversat.model_folder import write_description
from recoversat.peers.ctranslate2_translator import _prefix
from recoversat.score_files import score_lines
from recoversat.text.tokenizer import SentencePieceTokenizer
from recoversat.translator import Translator

TOKENIZER = SentencePieceTokenizer.train(["ein Haus am See", "a house by the lake"] * 9, 300, 99, ["<2de>", "<2en>"])


@pytest.fixture
def config() -> Config:
    shape = {"d_model": 16, "d_hidden": 16, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "max_segments": 2}
    return parse_config(
        {
            "data": {"src_lang": "en", "tgt_lang": "de", "both_directions": True},
            "model": {**shape, "vocab_size": TOKENIZER.size},
            "train": {"segments": [1, 2]},
        }
    )


@pytest.fixture
def model(config: Config, tmp_path: Path) -> Path:
    torch.manual_seed(3)
    network = build_model(config.model)
    torch.nn.init.normal_(network.embedding.weight, std=1.0)
    folder = tmp_path / "model"
    folder.mkdir()
    write_description(folder, config, TOKENIZER, {})
    save_weights(network.state_dict(), folder)
    return folder


def test_a_tag_is_the_texts_own_or_that_of_the_direction(config: Config) -> None:
    prefix = prefix_of(config.data, "de")
    assert prefix == "<2de>"
    assert split_tag("a house", TOKENIZER, prefix) == ("<2de>", "a house")
    assert split_tag("<2en>ein Haus", TOKENIZER, prefix) == ("<2en>", "ein Haus")
    assert split_tag("<2en>ein Haus", TOKENIZER, "") == ("", "<2en>ein Haus")
    plain, own = encode_tagged(["a house", "<2de>a house"], TOKENIZER, prefix)
    assert plain == own


def test_another_direction_may_be_named_with_its_region(model: Path) -> None:
    translator = Translator(model, source="EN", target="de_DE", device="cpu")
    assert (translator.source, translator.target, translator.prefix) == ("en", "de", "<2de>")
    assert translator.into("en-US").prefix == "<2en>"


def test_a_model_for_ctranslate2_is_asked_the_same_way() -> None:
    notes = {"directions": [["en", "de"], ["de", "en"]], "tagged": True}
    asked = [_prefix(notes, target, Path("ct2")) for target in (None, "de", "EN", "de-CH")]
    assert asked == ["<2de>", "<2de>", "<2en>", "<2de>"]
    assert _prefix({"directions": [["en", "de"]]}, "de-CH", Path("ct2")) == ""
    with pytest.raises(UserError, match="ct2: this model does not translate into fr, but into de and en"):
        _prefix(notes, "fr", Path("ct2"))


def test_pairs_are_scored_in_their_direction(model: Path, tmp_path: Path) -> None:
    (tmp_path / "src").write_text("a house\n")
    (tmp_path / "tgt").write_text("ein Haus\n")

    def score(target: str | None, segments: int = 1) -> float:
        files = {"segments": segments, "jsonl": False, "device": "cpu", "target": target}
        return float(next(score_lines(model, tmp_path / "src", tmp_path / "tgt", **files)))  # type: ignore[arg-type]

    assert score(None) == score("de") == score("de-AT") != score("en") == score("EN")
    (given,) = Translator(model, device="cpu").score_batch(["a house"], ["ein Haus"])
    assert sum(p for segment in given.segments for p in segment.log_probs) == pytest.approx(score("de"), abs=1e-3)
    with pytest.raises(UserError, match="this model writes 1 to 2 segments"):
        score("de", segments=3)
