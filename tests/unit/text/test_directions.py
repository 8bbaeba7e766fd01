"""Models of both directions: every source has a tag, its own or that of the direction asked for."""

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from recoversat.config import Config, DataConfig, parse_config
from recoversat.data.corpus import open_corpus
from recoversat.data.prepare import TextPairs, prepare
from recoversat.errors import UserError
from recoversat.files.model_folder import write_description
from recoversat.measuring.own import load_system
from recoversat.measuring.peers.ctranslate2 import _prefix
from recoversat.measuring.quality.metrics import corpus_bleu
from recoversat.measuring.quality.subwords import Subwords
from recoversat.measuring.quality.validation import bleu_validator
from recoversat.measuring.specs import SystemSpec, TestSpec
from recoversat.model.build import build_model
from recoversat.model.weights import load_model, save_weights
from recoversat.pipeline.score_files import score_lines
from recoversat.text.directions import directed, encode_directed, prefix_of, translate_directed
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


def test_prepared_text_brings_its_directions_and_other_text_is_text(config: Config) -> None:
    assert prefix_of(config.data, "de") == "<2de>"
    prepared = directed(["<2de>a house", "<2en>ein Haus"], config.data, "de")
    assert prepared == [("de", "a house"), ("en", "ein Haus")]
    assert directed(["a house", "<2en>ein Haus"], config.data, "de") == [("de", "a house"), ("de", "<2en>ein Haus")]
    one_way = config.data.model_copy(update={"both_directions": False})
    assert directed(["<2en>ein Haus"], one_way, "de") == [("de", "<2en>ein Haus")]
    assert directed([], config.data, "de") == []
    forward, backward = encode_directed(prepared, TOKENIZER, config.data)
    assert TOKENIZER.pieces([forward[0], backward[0]]) == ["<2de>", "<2en>"]
    assert TOKENIZER.decode(backward) == "ein Haus"


def test_texts_are_translated_by_direction_and_keep_their_order() -> None:
    asked = []

    def translate(into: str, texts: list[str]) -> list[str]:
        asked.append(into)
        return [f"{text} into {into}" for text in texts]

    each = [("de", "a"), ("en", "b"), ("de", "c")]
    assert translate_directed(each, translate) == ["a into de", "b into en", "c into de"]
    assert asked == ["de", "en"]


def test_what_a_user_writes_never_chooses_the_direction(model: Path) -> None:
    """A tag before a text is text: each id but the first is what the text is alone."""
    translator = Translator(model, target="de", device="cpu")
    plain, tagged, other = translator.encode(["a house", "<2de>a house", "<2en>a house"])
    assert TOKENIZER.pieces([plain[0], tagged[0], other[0]]) == ["<2de>"] * 3
    assert [TOKENIZER.decode(ids) for ids in (plain, tagged, other)] == ["a house", "<2de>a house", "<2en>a house"]
    (alone,), (forward,) = translator.into("en").translate(["<2de>"]), translator.translate(["<2en>"])
    assert (alone.source, forward.source) == ("<2de>", "<2en>")
    (forced,) = translator.translate(["a house"], segments=1, force=["1=<2en>"])
    assert forced.segments[0].text.startswith("<2en>")


def test_validation_text_is_translated_in_its_own_directions(model: Path, config: Config, tmp_path: Path) -> None:
    pairs = [("a house", "ein Haus"), ("the lake", "am See"), ("a lake", "ein See")]
    (tmp_path / "a.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs * 4))
    data = config.data.model_copy(update={"drop_duplicates": False})
    prepare(TextPairs(tmp_path / "a.tsv"), tmp_path / "corpus", data, hold_out=3, tokenizer_from=model, quiet=True)
    corpus = open_corpus(tmp_path / "corpus")
    translator = Translator(model, device="cpu")
    apart = {into: translator.into(into).translate for into in ("de", "en")}
    wanted = [
        apart["de" if line.startswith("<2de>") else "en"]([line[len("<2de>") :]])[0].text for line in corpus.valid_src
    ]
    system = load_system(SystemSpec("both", str(model)), device="cpu")
    files = TestSpec("valid", tmp_path / "corpus/valid.src", tmp_path / "corpus/valid.tgt")
    test_set = Subwords.of([SystemSpec("both", str(model))], None).read_test_set(files)
    assert [one.text for one in system.translate(test_set.sources, 32)] == wanted
    assert test_set.source_tokens == TOKENIZER.encode([line[len("<2de>") :] for line in corpus.valid_src])
    # the settings of a run need not say what the corpus knows
    validate = bleu_validator(corpus, config.model_copy(update={"data": DataConfig()}))
    assert validate
    assert validate(load_model(model)[0]) == pytest.approx(corpus_bleu(wanted, corpus.valid_tgt).value)


def test_prepared_pairs_are_scored_in_their_own_directions(model: Path, tmp_path: Path) -> None:
    def scores(sources: list[str], targets: list[str], target: str | None) -> list[float]:
        (tmp_path / "src").write_text("".join(f"{line}\n" for line in sources))
        (tmp_path / "tgt").write_text("".join(f"{line}\n" for line in targets))
        files = {"segments": 1, "jsonl": False, "device": "cpu", "target": target}
        return [float(line) for line in score_lines(model, tmp_path / "src", tmp_path / "tgt", **files)]  # type: ignore[arg-type]

    forward, backward = scores(["a house"], ["ein Haus"], "de"), scores(["ein Haus"], ["a house"], "en")
    both = scores(["<2de>a house", "<2en>ein Haus"], ["ein Haus", "a house"], None)
    assert both == pytest.approx(forward + backward, abs=1e-3)


def test_another_direction_may_be_named_with_its_region(model: Path) -> None:
    translator = Translator(model, source="EN", target="de_DE", device="cpu")
    assert (translator.source, translator.target, translator.prefix) == ("en", "de", "<2de>")
    assert translator.into("en-US").prefix == "<2en>"


def test_the_tag_of_a_direction_takes_no_room(model: Path) -> None:
    translator, text = Translator(model, device="cpu"), "a house"
    for room, fits in ((0, True), (-1, False)):
        most = len(TOKENIZER.encode([text])[0]) + room
        data = translator.config.data.model_copy(update={"max_tokens": most})
        translator.config = translator.config.model_copy(update={"data": data})
        with nullcontext() if fits else pytest.raises(UserError, match="too long to force words in it"):
            translator.translate([text], segments=1, force=["1=ein"])


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
