"""Characters that nobody sees are left out, but for a model that has learnt them."""

from recoversat.text.invisible import unreadable
from recoversat.text.tokenizer import BpeTokenizer, SentencePieceTokenizer
from recoversat.vocab import SPECIAL_PIECES


def test_only_what_has_no_piece_is_left_out() -> None:
    lines = [f"word{n} and wo\xadrd{n} more" for n in range(50)]
    learnt = unreadable(SentencePieceTokenizer.train(lines, 300, 1000))
    assert 0xAD not in learnt
    assert 0x200B in learnt
    assert "a\u200bb\u200d c".translate(learnt) == "ab\u200d c"  # joiners have a meaning
    assert {0xAD, 0x200B} <= set(unreadable(BpeTokenizer([*SPECIAL_PIECES, "the", "house"])))
    assert 0xAD not in unreadable(BpeTokenizer([*SPECIAL_PIECES, "the", "\xad"]))


def test_what_can_be_printed_can_be_read() -> None:
    """So a text without anything else need not be looked through."""
    everything = unreadable(BpeTokenizer([*SPECIAL_PIECES, "the", "house"]))
    assert not any(chr(mark).isprintable() for mark in everything)
