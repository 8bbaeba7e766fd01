"""Text must survive the tokenizer, whatever it is."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recoversat.errors import UserError
from recoversat.text.tokenizer import BpeTokenizer, SentencePieceTokenizer, load_tokenizer
from recoversat.vocab import BOS, DEL, EOS, N_SPECIAL, PAD, SPECIAL_PIECES, UNK

SAMPLE = ["There are lots of farmers doing this today.", "Es gibt heute viele Farmer mit diesem Ansatz."] * 20
sentencepiece = SentencePieceTokenizer.train(SAMPLE, vocab_size=400, max_lines=1000)
single_lines = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"))


@given(single_lines)
@example("\u2581 _ \u2581\u2581 \x1a0 \x1a1 \x1a")
@example("  two  spaces , \t tab \u00a0 nbsp \u3000 ")
@example("<del> </s> <unk> <0x41>")
@example("👩‍👩‍👧 ᚠᛇᚻ 𐎀𐎁 ﷽ e\u0301 \0 \x85 \u2028")
def test_sentencepiece_is_lossless(line: str) -> None:
    (ids,) = sentencepiece.encode([line])
    assert sentencepiece.decode(ids) == line
    assert all(i >= N_SPECIAL for i in ids)


@given(st.lists(st.integers(N_SPECIAL, sentencepiece.size - 1), max_size=8))
@example([sentencepiece.encode([" "])[0][0]] * 3)
def test_any_ids_decode_as_sentencepiece_itself_decodes_them(ids: list[int]) -> None:
    assert sentencepiece.decode(ids) == sentencepiece._processor.decode(ids).replace("\x1a1", "\u2581")


def test_many_lines_are_encoded_like_few() -> None:
    lines = [" ".join(SAMPLE[:2])[n:] for n in range(80)]
    assert sentencepiece.encode(lines) == [ids for line in lines for ids in sentencepiece.encode([line])]


def test_special_ids_are_never_text() -> None:
    assert sentencepiece.pieces(range(N_SPECIAL)) == list(SPECIAL_PIECES)
    (ids,) = sentencepiece.encode(["farmers today"])
    assert sentencepiece.decode([*ids, EOS]) == "farmers today"


def test_a_tag_stands_before_a_line_and_no_line_can_spell_it() -> None:
    tagged = SentencePieceTokenizer.train(SAMPLE, vocab_size=400, max_lines=1000, tags=["<2de>", "<2en>"])
    lines = ["farmers", "<2de>farmers", " <2en>", "of <2de>", ""]
    plain, forward = tagged.encode(lines), tagged.encode(lines, "<2en>")
    assert forward == [[N_SPECIAL + 1, *ids] for ids in plain]
    assert not {N_SPECIAL, N_SPECIAL + 1} & {i for ids in plain for i in ids}
    assert [tagged.decode(ids) for ids in forward] == [tagged.decode(ids) for ids in plain] == lines
    assert sentencepiece.tags == []
    assert sentencepiece.decode(sentencepiece.encode(["<2de>farmers"])[0]) == "<2de>farmers"


def test_words_end_before_a_space() -> None:
    (ids,) = sentencepiece.encode(["lots of unseen farmers"])
    ends = sentencepiece.word_ends(np.array(ids))
    words, current = [], []
    for token, end in zip(ids, ends, strict=True):
        current.append(token)
        if end:
            words.append(sentencepiece.decode(current))
            current = []
    assert words == ["lots", "of", "unseen", "farmers"]


def test_bpe_joins_what_was_split() -> None:
    bpe = BpeTokenizer.train(["die er@@ greif@@ endste Abteilung", "die Abteilung"], vocab_size=100)
    (ids,) = bpe.encode(["die er@@ greif@@ endste Abteilung"])
    assert bpe.decode(ids) == "die ergreifendste Abteilung"
    assert bpe.word_ends(np.array(ids)).tolist() == [True, False, False, True, True]
    assert bpe.encode(["nie </s> gesehen"]) == [[UNK, UNK, UNK]]


def test_bpe_keeps_the_most_frequent() -> None:
    bpe = BpeTokenizer.train(["a a a b b c"], vocab_size=N_SPECIAL + 2)
    assert bpe.pieces(range(N_SPECIAL, bpe.size)) == ["a", "b"]


@pytest.mark.parametrize("tokenizer", [sentencepiece, BpeTokenizer.train(["a@@ b c"], 20)])
def test_saved_and_loaded_is_the_same(tokenizer: SentencePieceTokenizer | BpeTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert type(loaded) is type(tokenizer)
    assert loaded.encode(["a@@ b c farmers"]) == tokenizer.encode(["a@@ b c farmers"])


def test_missing_and_damaged_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no tokenizer"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.model").write_bytes(b"not a model")
    with pytest.raises(UserError, match="damaged"):
        load_tokenizer(tmp_path)


def test_a_vocabulary_too_small_for_the_characters_says_how_large_it_must_be() -> None:
    with pytest.raises(UserError, match=r"data\.vocab_size = 100 is too small .* use at least 2\d\d"):
        SentencePieceTokenizer.train(["a small house", "ein kleines Haus"] * 20, 100, 100)


def test_what_begins_between_words() -> None:
    begins = sentencepiece.begins()
    (ids,) = sentencepiece.encode(["There are farmers. doing this ☃ today."])
    words = "".join("|" * int(begins[i]) + piece for i, piece in zip(ids, sentencepiece.pieces(ids), strict=True))
    assert words.replace("▁", "").replace("|", " ") == " There are farmers . doing this <0xE2><0x98><0x83> today ."
    assert begins[[EOS, DEL]].all()
    assert not begins[[PAD, BOS, UNK]].any()
    with pytest.raises(UserError, match="use token"):
        BpeTokenizer([*SPECIAL_PIECES, "gas", "cham@@"]).begins()
