"""Rep and Mis are counted in the sub-words of one tokenizer, whatever the systems speak."""

import pytest

from recoversat.config import parse_config
from recoversat.files.model_folder import write_description
from recoversat.measuring.quality.outputs import SystemOutput
from recoversat.measuring.quality.subwords import Subwords
from recoversat.measuring.specs import SystemSpec, TestSpec
from recoversat.text.tokenizer import SentencePieceTokenizer, vocabulary_fingerprint

LINES = ["the house", "gas chambers", "a house in the gas"]


@pytest.fixture(scope="module")
def spoken():
    return SentencePieceTokenizer.train(LINES * 30, vocab_size=290, max_lines=100)


@pytest.fixture
def unsplit(spoken):
    return Subwords(spoken, "mine")


@pytest.fixture
def split(tokenizer):
    return Subwords(tokenizer, "mine", is_split_text=True)


def output(*lines, tokens=None, vocabulary=None):
    return SystemOutput("s", "t", list(lines), tokens, settings={"vocabulary": vocabulary})


def test_tokens_of_the_same_vocabulary_stay_as_decoded(unsplit):
    decoded = output("the house", tokens=[[99, 98]], vocabulary="mine")
    assert unsplit.align(decoded) == decoded


@pytest.mark.parametrize("other", [output("the house"), output("the house", tokens=[[99]], vocabulary="another")])
def test_everything_else_is_encoded_again_and_says_so(unsplit, spoken, other):
    aligned = unsplit.align(other)
    assert aligned.tokens == spoken.encode(["the house"])
    assert aligned.settings["tokens"] == "encoded again"


def test_without_a_model_there_are_no_tokens():
    assert Subwords().align(output("the house")).tokens is None


def test_split_output_is_joined_and_its_pieces_are_its_tokens(split, tokenizer):
    aligned = split.align(output("gas cham@@ bers"))
    assert aligned.hypotheses == ["gas chambers"]
    assert aligned.tokens == tokenizer.encode(["gas cham@@ bers"])


def test_words_that_were_never_split_have_no_tokens_of_a_split_vocabulary(split):
    assert split.align(output("gas chambers")).tokens is None
    assert split.align(output("gas chambers", tokens=[[7]], vocabulary="another")).tokens is None
    assert split.align(output("gas chambers", tokens=[[7]], vocabulary="mine")).tokens == [[7]]


def test_split_references_are_joined_for_scores_and_counted_in_pieces(split, tokenizer, tmp_path):
    (tmp_path / "src").write_text("a cham@@ bers\n")
    (tmp_path / "ref").write_text("gas cham@@ bers\n")
    test_set = split.read_test_set(TestSpec("t", tmp_path / "src", tmp_path / "ref"))
    assert test_set.references == ["gas chambers"]
    assert test_set.reference_tokens == tokenizer.encode(["gas cham@@ bers"])
    assert test_set.source_tokens == tokenizer.encode(["a cham@@ bers"])


def test_the_at_systems_tokenizer_counts_else_that_of_the_first_model(tmp_path, spoken, tokenizer):
    for name, its, kind in (("first", spoken, "sentencepiece"), ("teacher", tokenizer, "bpe")):
        (tmp_path / name).mkdir()
        write_description(tmp_path / name, parse_config({"data": {"tokenizer": kind}}), its, {})
    (tmp_path / "out.de").touch()
    specs = [SystemSpec(name, str(tmp_path / name)) for name in ("out.de", "first", "teacher")]
    chosen = Subwords.of(specs, "teacher")
    assert (chosen.vocabulary, chosen.is_split_text) == (vocabulary_fingerprint(tmp_path / "teacher"), True)
    for at_system in ("out.de", None):
        assert Subwords.of(specs, at_system).vocabulary == vocabulary_fingerprint(tmp_path / "first")
    assert vocabulary_fingerprint(tmp_path / "first") != vocabulary_fingerprint(tmp_path / "teacher")
    assert Subwords.of(specs[:1], None) == Subwords()
