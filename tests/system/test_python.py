"""The library as programs use it, with the built-in model: docs/python.md, pickling, copying, asyncio."""

import asyncio
import copy
import doctest
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import recoversat
from recoversat import Translator, UserError
from recoversat.decoding.segmentwise import Decoded
from recoversat.engines.engine import Sources
from tests.unit.inference.by_count import NUMBERS, writes

DOCS = Path(__file__).parents[2] / "docs"
LINE = "The old house stands at the end of a long road."


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(source="en", target="de", intra_threads=1)


def test_examples_of_the_documentation_are_true() -> None:
    results = doctest.testfile(str(DOCS / "python.md"), module_relative=False, encoding="utf-8")
    assert results.attempted > 10
    assert results.failed == 0


def test_threads_share_a_translator(translator: Translator) -> None:
    lines = [LINE, "Good morning!", "Two dogs run.", "Where is the station?"]
    alone = {mode: translator.translate(lines, quality=mode, batch_size=1) for mode in ("fast", "exact")}
    with ThreadPoolExecutor(4) as pool:
        jobs = [(mode, pool.submit(translator.translate, lines, quality=mode, batch_size=1)) for mode in [*alone] * 4]
        assert all([one.ids for one in job.result()] == [one.ids for one in alone[mode]] for mode, job in jobs)


def test_what_is_public_is_named() -> None:
    assert all(getattr(recoversat, name) for name in recoversat.__all__)
    assert set(dir(recoversat)) == set(recoversat.__all__)
    assert issubclass(recoversat.UserError, ValueError)


def test_a_pickled_translator_is_loaded_again_as_it_was_set(translator: Translator) -> None:
    other = translator.into("en")
    other.set_decoding(quality="exact")
    other.set_glossary({"Haus": "dwelling"})
    again = pickle.loads(pickle.dumps(other))
    assert again.engine is not other.engine
    assert (again.target, again.config, again.glossary) == ("en", other.config, other.glossary)
    german = ["Das alte Haus steht am Ende der Straße."]
    assert again.translate(german)[0].text == other.translate(german)[0].text
    with pytest.raises(UserError, match="made of parts in memory cannot be pickled"):
        pickle.dumps(writes(NUMBERS))


def test_a_copy_shares_the_model_and_nothing_else(translator: Translator) -> None:
    other = copy.copy(translator)
    other.set_decoding(repairs="none")
    other.set_direction("de", "en")
    assert other.engine is translator.engine
    assert (translator.config.decode.repairs, translator.target) == ("model", "de")


def test_texts_and_pages_go_in_whole_and_come_out_whole(translator: Translator) -> None:
    text = translator.translate_text("Good morning!\n\n  Thank you.\n")
    assert text == "Guten Morgen!\n\n  Danke.\n"
    assert translator.translate_html('<p class="x">Good morning!</p>') == '<p class="x">Guten Morgen!</p>'
    with pytest.raises(UserError, match="expected one text, not list"):
        translator.translate_text(["Good morning!"])  # type: ignore[arg-type]


def test_awaiting_gives_what_calling_gives(translator: Translator) -> None:
    async def several() -> list[str]:
        done = await asyncio.gather(*(translator.atranslate([LINE], segments=k) for k in (1, 2, 4)))
        return [one.text for (one,) in done]

    assert asyncio.run(several()) == [translator.translate([LINE], segments=k)[0].text for k in (1, 2, 4)]

    async def wrong() -> None:
        await translator.atranslate([LINE], segments=0)

    with pytest.raises(UserError):
        asyncio.run(wrong())


def test_a_cancelled_call_stops_and_the_next_one_works(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    decode = translator.engine.decode

    def counted(sources: Sources, *more: Any) -> list[Decoded]:
        decoded.append(len(sources))
        return decode(sources, *more)

    monkeypatch.setattr(translator.engine, "decode", counted)

    async def impatient() -> None:
        many = [LINE] * 4000
        calls = [asyncio.ensure_future(translator.atranslate(many, segments=1, batch_size=1)) for _ in range(2)]
        while not decoded:
            await asyncio.sleep(0.01)
        for call in calls:
            call.cancel()
        assert all(
            isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*calls, return_exceptions=True)
        )
        await translator.atranslate(["Good morning!"])  # waits for its turn

    asyncio.run(impatient())
    assert 1 < len(decoded) < 400  # of 8001
