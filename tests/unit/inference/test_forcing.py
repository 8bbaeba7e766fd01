"""Words forced at a place of a segment: parsed, put into pieces, checked."""

import pytest

from recoversat.errors import UserError
from recoversat.inference.forcing import ForcedWords, check_forced, force_words, parse_force
from recoversat.text.tokenizer import SentencePieceTokenizer
from recoversat.vocab import EOS

SCRIPT = {"a b": ["the house EOS", "in DEL", "gas cham@@ bers EOS"]}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("6:1=the", ForcedWords(6, 1, "the")),
        ("6=the", ForcedWords(6, 1, "the")),
        (" 2:10 = gas chambers ", ForcedWords(2, 10, "gas chambers")),
        ("1:1=a=b", ForcedWords(1, 1, "a=b")),
    ],
)
def test_a_spec_names_segment_position_and_words(spec, words):
    assert parse_force(spec) == words


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("the", "write SEGMENT:POSITION=WORDS"),
        ("x:1=the", "write SEGMENT:POSITION=WORDS"),
        ("-1:1=the", "write SEGMENT:POSITION=WORDS"),
        ("0:1=the", "counted from 1"),
        ("1:0=the", "counted from 1"),
        ("1:1= ", "no word after '='"),
    ],
)
def test_a_wrong_spec_is_explained(spec, message):
    with pytest.raises(UserError, match=message):
        parse_force(spec)


def test_a_word_of_several_pieces_takes_several_positions(tokenizer):
    ids = tokenizer.encode(["gas cham@@ bers"])[0]
    assert force_words(["2:3=gas cham@@ bers"], tokenizer, 2) == {(1, 2): ids[0], (1, 3): ids[1], (1, 4): ids[2]}


def test_a_sentencepiece_word_is_split_by_its_tokenizer():
    lines = ["the house", "the houses", "a mouse in the house"] * 20
    tokenizer = SentencePieceTokenizer.train(lines, vocab_size=280, max_lines=100)
    forced = force_words(["1:1=Mäusehaus"], tokenizer, 1)
    assert sorted(forced) == [(0, i) for i in range(len(forced))]
    assert len(forced) > 1
    assert tokenizer.decode([forced[place] for place in sorted(forced)]) == "Mäusehaus"


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (["4:1=the"], "no segment 4, the translation has 3"),
        (["1:1=the dog"], "no piece for 'dog'"),
        (["1:1=<del>"], "no piece for '<del>'"),
        (["1:1=the house", "1:2=gas"], "segment 1, position 2 is already forced"),
    ],
)
def test_what_cannot_be_forced_is_an_error_that_names_the_fix(specs, message, tokenizer):
    with pytest.raises(UserError, match=message):
        force_words(specs, tokenizer, 3)


def test_the_same_word_may_be_forced_twice(tokenizer):
    assert len(force_words(["1:1=the house", "1:2=house"], tokenizer, 1)) == 2


def test_a_position_after_the_end_of_its_segment_is_an_error():
    with pytest.raises(UserError, match=r"line 7: nothing can be forced at segment 1, position 4.*from 1 to 2"):
        check_forced({(0, 3): 9}, [[8, EOS]], "line 7")
    check_forced({(0, 0): 8}, [[8, EOS]], "line 7")


def test_the_translator_writes_forced_words_and_goes_on_after_them(scripted):
    translator = scripted(SCRIPT)
    assert translator.translate(["a b"])[0].text == "the house gas chambers"
    assert translator.translate(["a b"], force=["2:1=gas", "2:2=b"])[0].segments[1].pieces[:2] == ["gas", "b"]
    # at the place of DEL, the forced word keeps the segment alive
    kept = translator.translate(["a b"], force=["2:2=gas", "1:2=c"])[0]
    assert kept.segments[0].pieces == ["the", "c"]
    assert kept.segments[1].ending == "del"
    assert kept.segments[1].pieces == ["in", "gas"]


def test_each_of_several_lines_is_forced_and_an_error_names_the_line(scripted):
    translator = scripted({"a b": ["the EOS", "in EOS"], "c": ["a b c EOS", "in EOS"]})
    first, second = translator.translate(["a b", "c"], force=["1:1=gas"])
    assert (first.text, second.text) == ("gas in", "gas b c in")
    with pytest.raises(UserError, match="line 2: nothing can be forced at segment 1, position 3"):
        translator.translate(["c", "a b"], force=["1:3=gas"])


def test_a_line_too_short_for_the_segment_is_named(scripted):
    translator = scripted({"a": ["the EOS"] * 3, "a b c": ["a b c EOS", "in EOS", "gas EOS"]})
    several = translator.config.model_copy(
        update={
            "train": translator.config.train.model_copy(update={"segments": [1, 3]}),
            "decode": translator.config.decode.model_copy(update={"segment_length": 1}),
        }
    )
    translator.config = several
    lines = ["a b c", "", "a"]
    assert len(translator.translate(lines[:2], segments="auto", force=["3:1=house"])) == 2  # nothing to say of line 2
    with pytest.raises(UserError, match=r"line 3: what is forced names segment 3, but .* in 1; .* choose segments 3"):
        translator.translate(lines, segments="auto", force=["1=the", "3:1=house"])
    forced = translator.translate(lines, segments=3, force=["3:1=house"])
    assert [t.text for t in forced] == ["a b c in house", "", "the the house"]


def test_beam_search_refuses_what_it_cannot_do(scripted):
    translator = scripted({"a b": ["the EOS", "in EOS"]})
    with pytest.raises(UserError, match="beam search writes one segment, this would be 2; choose segments 1"):
        translator.translate(["a b"], beam=4)
    with pytest.raises(UserError, match="neither forced nor traced"):
        translator.translate(["a b"], beam=4, segments=1, force=["1:1=gas"])
