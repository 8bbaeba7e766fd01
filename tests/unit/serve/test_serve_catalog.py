"""Which model translates which pair, and what is known of the languages."""

from pathlib import Path
from typing import Any

import pytest

from recoversat.errors import UserError
from recoversat.files.model_folder import write_description
from recoversat.serve.settings import ServeSettings
from recoversat.serve.work.catalog import (
    Catalog,
    ModelSource,
    glossary_of,
    load_models,
    model_sources,
    parse_model,
)
from recoversat.text.languages import LanguageDetector, language_name
from tests.unit.serve.fake_translator import FakeTranslator, fake_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fake = FakeTranslator("en", "de")
    write_description(tmp_path, fake.config, fake.tokenizer, {})
    return tmp_path


def test_a_model_is_named_with_or_without_its_pair(folder: Path) -> None:
    assert parse_model(str(folder)) == [ModelSource("en", "de", folder)]
    assert parse_model(f"fr-it={folder}") == [ModelSource("fr", "it", folder)]
    assert parse_model(f"zh-Hans:pt-BR={folder}") == [ModelSource("zh-Hans", "pt-BR", folder)]
    with pytest.raises(UserError, match="write it like en-de=FOLDER"):
        parse_model(f"zh-Hans-en={folder}")
    with pytest.raises(UserError, match="no such model folder"):
        parse_model("en-de=/nowhere")


def test_a_model_of_both_directions_is_served_in_both(tmp_path: Path) -> None:
    fake = FakeTranslator("en", "de")
    both = fake.config.model_copy(update={"data": fake.config.data.model_copy(update={"both_directions": True})})
    write_description(tmp_path, both, fake.tokenizer, {})
    assert parse_model(str(tmp_path)) == [ModelSource("en", "de", tmp_path), ModelSource("de", "en", tmp_path)]


def test_without_models_the_built_in_ones_are_served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoversat.serve.work.catalog.builtin_models", lambda: [folder])
    assert model_sources([]) == [ModelSource("en", "de", folder)]
    monkeypatch.setattr("recoversat.serve.work.catalog.builtin_models", list)
    with pytest.raises(UserError, match="add --model en-de=FOLDER"):
        model_sources([])


def test_a_one_step_model_is_refused(tmp_path: Path) -> None:
    fake = FakeTranslator(k=1)
    config = fake.config.model_copy(update={"model": fake.config.model.model_copy(update={"kind": "nat"})})
    write_description(tmp_path, config, fake.tokenizer, {})
    with pytest.raises(UserError, match="'nat' model cannot be served"):
        parse_model(str(tmp_path))


def test_one_segment_is_left_to_who_has_learnt_it() -> None:
    student, both, teacher = fake_model(), fake_model(choices=[1, 4]), fake_model(k=1, choices=1)
    assert Catalog([student]).autoregressive("en", "de") is None
    assert Catalog([student]).route("en", "de", 1) is student
    assert Catalog([both]).autoregressive("en", "de") is both
    assert Catalog([teacher, student]).route("en", "de", 1) is teacher
    assert Catalog([teacher, student]).route("en", "de", None) is student
    assert Catalog([teacher]).route("en", "de", None) is teacher
    assert Catalog([student]).route("de", "en", None) is None
    with pytest.raises(UserError, match="two models for en-de"):
        Catalog([student, both])


def test_detection_stays_among_the_languages_on_offer() -> None:
    french = "Le chat dort sur le canapé pendant que la pluie tombe."
    assert LanguageDetector(["en", "fr", "de"]).rank(french)[0].language == "fr"
    assert {found.language for found in LanguageDetector(["en", "de"]).rank(french)} == {"en", "de"}
    assert LanguageDetector(["en", "pt-BR"]).rank("O gato dorme no sofá enquanto chove lá fora.")[0].language == "pt-BR"
    assert [(f.language, f.confidence) for f in LanguageDetector(["src", "tgt"]).rank("hi")] == [("src", 0), ("tgt", 0)]
    assert all(found.confidence < 5 for found in LanguageDetector(["en", "de"]).rank(""))
    assert all(found.confidence < 5 for found in LanguageDetector(["en", "de"]).rank(french))  # it is neither
    assert language_name("pt-BR") == "Portuguese (BR)"


def test_a_folder_may_have_an_equals_sign_in_its_name(tmp_path: Path) -> None:
    fake, run = FakeTranslator("en", "de"), tmp_path / "q=0.3"
    run.mkdir()
    write_description(run, fake.config, fake.tokenizer, {})
    assert parse_model(str(run)) == [ModelSource("en", "de", run)]
    assert parse_model(f"fr-it={run}") == [ModelSource("fr", "it", run)]


@pytest.mark.parametrize(("device", "bounded"), [("cpu", True), ("auto", True), ("cuda", False), ("cuda:1", False)])
def test_only_what_runs_on_the_cpu_is_bounded_while_it_decodes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, device: str, bounded: bool
) -> None:
    (folder / "onnx" / "fp32").mkdir(parents=True)  # beside torch weights, which a GPU takes
    given: dict[str, Any] = {}

    def load(folder: Path, **options: Any) -> FakeTranslator:
        given.update(options)
        return FakeTranslator()

    monkeypatch.setattr("recoversat.translator.Translator", load)
    load_models([ModelSource("en", "de", folder)], ServeSettings(device=device, max_memory=1 << 30))
    assert (given["max_memory"] is not None) is bounded


def test_a_server_has_glossaries_for_all_pairs_and_for_one(tmp_path: Path) -> None:
    for name, text in (("all", "GNU\t=\nhouse\tHaus\n"), ("ende", "house\tHütte\n"), ("deen", "Haus\thut\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    files = [f"en-de={tmp_path / 'ende'}", f"de-en={tmp_path / 'deen'}", str(tmp_path / "all")]

    def terms(source: str, target: str) -> list[tuple[str, str]]:
        found = glossary_of(files, source, target)
        return [(term.source, term.target) for term in found.terms] if found else []

    assert terms("en", "de") == [("house", "Hütte"), ("GNU", "")]
    assert terms("de", "en") == [("Haus", "hut"), ("GNU", ""), ("house", "Haus")]
    assert glossary_of([], "en", "de") is None
    with pytest.raises(UserError, match="no such glossary"):
        glossary_of([f"de-en={tmp_path / 'none'}"], "en", "de")
