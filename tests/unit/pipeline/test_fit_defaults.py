"""What `fit` is told wins over what the size of a corpus suggests."""

from pathlib import Path

import pytest

from recoversat.config import DecodeConfig, load_config
from recoversat.data.prepare import TextPairs
from recoversat.errors import UserError
from recoversat.files.storage import atomic_stream
from recoversat.pipeline.fit_job import FitJob, fit_job
from recoversat.pipeline.options import FitOptions


@pytest.fixture
def pairs(tmp_path: Path) -> TextPairs:
    for name in ("train.en", "train.de.txt"):
        (tmp_path / name).write_text("a line\n" * 30)
    return TextPairs(tmp_path / "train.en", tmp_path / "train.de.txt")


def job(pairs: TextPairs, *overrides: str, segments: int | None = None, **options: object) -> FitJob:
    given = {"segments": segments, "settings": list(overrides), "device": "cpu", **options}
    return fit_job(FitOptions(pairs.src, pairs.src.parent / "out", pairs.tgt, **given))  # type: ignore[arg-type]


def test_without_any_wish_the_size_decides(pairs: TextPairs) -> None:
    plain = job(pairs)
    assert (plain.student.train.segments, plain.teacher.train.segments) == (10, 1)
    assert (plain.student.model.d_model, plain.student.train.steps) == (128, 3000)
    assert (plain.student.train.save_every, plain.student.train.validate_every) == (150, 300)
    assert (plain.student.data.src_lang, plain.student.data.tgt_lang) == ("en", "txt")


def test_targets_are_divided_at_words_where_spaces_show_them(pairs: TextPairs, tmp_path: Path) -> None:
    assert job(pairs).student.train.cut_at == "word"
    assert job(pairs, "train.cut_at=token").student.train.cut_at == "token"
    assert job(pairs, preset="iwslt16").student.train.cut_at == "token"  # the paper's
    (tmp_path / "train.zh").write_text("我们住在这座城市的这个地方。\n" * 30)
    assert job(TextPairs(pairs.src, tmp_path / "train.zh")).student.train.cut_at == "token"


@pytest.mark.parametrize("packed", [".gz", ".xz", ".zst"])
def test_a_compressed_file_names_its_language_too(tmp_path: Path, packed: str) -> None:
    for name in ("train.en", "train.de"):
        with atomic_stream(tmp_path / f"{name}{packed}") as stream:
            stream.write(b"a line\n" * 30)
    data = job(TextPairs(tmp_path / f"train.en{packed}", tmp_path / f"train.de{packed}")).student.data
    assert (data.src_lang, data.tgt_lang) == ("en", "de")


def test_segments_beyond_the_usual_make_room_for_themselves(pairs: TextPairs) -> None:
    assert job(pairs, segments=16).student.model.max_segments == 16
    assert job(pairs, segments=4).student.model.max_segments == 10


def test_a_config_file_keeps_its_word(pairs: TextPairs, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "data: {tgt_lang: de}\nmodel: {max_segments: 20}\n"
        "train: {segments: [1, 2, 20], save_every: 7, validate_every: 9, steps: 400}\n"
    )
    student = job(pairs, config=file).student
    assert (student.train.segments, student.model.max_segments) == ([1, 2, 20], 20)
    assert (student.train.save_every, student.train.validate_every) == (7, 9)
    assert (student.data.src_lang, student.data.tgt_lang) == ("en", "de")
    assert job(pairs, config=file, segments=5).student.train.segments == 5
    file.write_text("train: {segments: 20}\n")  # good only with what the command line adds
    assert job(pairs, "model.max_segments=20", config=file).student.train.segments == 20


def test_tiny_is_fitted_for_every_k_and_its_teacher_for_one(pairs: TextPairs) -> None:
    made = job(pairs, preset="tiny")
    assert made.student.model == made.teacher.model == load_config(preset="tiny").model
    assert (made.student.train.segment_choices[-1], made.teacher.train.segments) == (16, 1)
    assert (made.student.decode.join_overlaps, made.with_decoder) == (True, True)  # no preset of the paper


def test_a_preset_gives_k_and_its_rhythm_follows_the_updates(pairs: TextPairs) -> None:
    student = job(pairs, "train.steps=100", preset="small").student
    assert student.train.segments == 5
    assert (student.train.save_every, student.train.validate_every) == (5, 10)
    assert job(pairs, "train.save_every=33", preset="small").student.train.save_every == 33


def test_what_fit_trains_writes_for_readers_unless_told_otherwise(pairs: TextPairs, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("decode: {cut_loops: false}\n")
    for made, wanted in (
        (job(pairs), (True, True)),
        (job(pairs, preset="small"), (True, True)),
        (job(pairs, config=file), (True, False)),
        (job(pairs, "decode.join_overlaps=false"), (False, True)),
    ):
        assert (made.student.decode.join_overlaps, made.student.decode.cut_loops) == wanted


@pytest.mark.parametrize("preset", ["iwslt16", "wmt14", "wmt16"])
def test_a_preset_of_the_paper_is_its_recipe_throughout(pairs: TextPairs, tmp_path: Path, preset: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"preset: {preset}\n")
    for made in (job(pairs, preset=preset), job(pairs, config=file)):
        assert not made.with_decoder
        for own in (made.student, made.teacher):
            papers = load_config(preset=preset)
            assert own.decode == papers.decode == DecodeConfig(whole_characters=False)
            assert own.model == papers.model
            rhythm = dict.fromkeys(("segments", "save_every", "validate_every"), 1)
            assert own.train.model_copy(update=rhythm) == papers.train.model_copy(update=rhythm)


def test_the_papers_recipe_can_be_left_only_by_saying_so(pairs: TextPairs) -> None:
    assert job(pairs, preset="iwslt16", encoder_only=False).with_decoder
    assert job(pairs, "decode.cut_loops=true", preset="iwslt16").student.decode.cut_loops
    assert (job(pairs).with_decoder, job(pairs, preset="small").with_decoder) == (True, True)
    assert not job(pairs, encoder_only=True).with_decoder


def test_k_is_named_once(pairs: TextPairs) -> None:
    assert job(pairs, "train.segments=[1, 2]").student.train.segments == [1, 2]
    with pytest.raises(UserError, match="K is named twice"):
        job(pairs, "train.segments=5", segments=3)
