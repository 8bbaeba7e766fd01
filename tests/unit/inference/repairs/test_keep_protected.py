"""Addresses, placeholders and emoji."""

import pytest

from recoversat.text.tokenizer import BpeTokenizer
from recoversat.translator import Translator
from recoversat.vocab import EOS, UNK
from tests.unit.inference.by_count import writes

PIECES = ["see", "siehe", "now", "jetzt", "211", "224", "%s", "%d", "of"]
TEN = 5  # the first id of a piece

LONG = "https://x.org/a?" + "&".join(f"b{n}=1" for n in range(20))


def translator(script, **decode: object) -> Translator:
    """Write what `script` makes of words; those it does not know are one token to it."""
    made = writes({}, keep_protected=True, **decode)
    made.tokenizer = BpeTokenizer([*made.tokenizer.pieces(range(TEN)), *PIECES])

    def written(ids, k):
        words = ["?" if i == UNK else made.tokenizer.decode([i]) for i in ids]
        return [[made.tokenizer.encode([word])[0][0] for word in script(words, int(k))] + [EOS]]

    made.engine._script = written
    return made


def german(words: list[str], k: int) -> list[str]:
    return [{"see": "siehe", "now": "jetzt"}.get(word, word) for word in words]


@pytest.mark.parametrize("address", ["https://x.org/a?b=1", "www.x.org", "max.muster@x.de", LONG])
@pytest.mark.parametrize("segments", [1, 2, "auto"])
@pytest.mark.parametrize("more", [{}, {"check_numbers": True}])
def test_addresses_travel_as_numbers(address: str, segments, more) -> None:
    (one,) = translator(german, **more).translate([f"see {address} now"], segments=segments)
    assert (one.text, one.repairs) == (f"siehe {address} jetzt", ("keep_protected",))
    (off,) = translator(german).translate([f"see {address} now"], segments=segments, repairs=False)
    assert address not in off.text


def test_what_is_long_is_a_number_from_the_beginning() -> None:
    for address, steps in (("a@b.de", 3 + 1 + 3 + 1), (LONG, 3 + 1)):
        assert translator(german).translate([f"see {address} now"], segments=1)[0].steps == steps


def test_what_the_model_copies_is_left_to_it() -> None:
    (one,) = translator(german).translate(["see %s now"])
    assert (one.text, one.repairs) == ("siehe %s jetzt", ())


def test_what_is_lost_is_written_again_with_a_number_in_its_place() -> None:
    (one,) = translator(german).translate(["see {name} now"])  # which the model does not know
    assert (one.text, one.repairs) == ("siehe {name} jetzt", ("keep_protected",))


def test_arguments_of_printf_do_not_change_places() -> None:
    def turned(words: list[str], k: int) -> list[str]:
        return german(words, k)[::-1]

    assert translator(turned).translate(["%s of %d"])[0].text == "%s of %d"


def test_the_words_around_are_translated_alone_where_stand_ins_get_lost_too() -> None:
    def forgetful(words: list[str], k: int) -> list[str]:
        return [word for word in german(words, k) if not word[0].isdigit() and word != "?"]

    for address in ("a@b.de", "{name}"):
        assert translator(forgetful).translate([f"see {address} now"])[0].text == f"siehe {address} jetzt"


def test_the_source_stands_where_all_else_fails() -> None:
    def mad(words: list[str], k: int) -> list[str]:
        return ["211", "211"]

    assert translator(mad).translate([f"see {LONG} now"])[0].text == f"see {LONG} now"


def test_long_texts_keep_their_addresses() -> None:
    made = translator(german)
    short = made.config.data.model_copy(update={"max_tokens": 3})
    made.config = made.config.model_copy(update={"data": short})
    (one,) = made.translate([f"see a@b.de now now see {LONG} now"])
    assert one.text == f"siehe a@b.de jetzt jetzt siehe {LONG} jetzt"
