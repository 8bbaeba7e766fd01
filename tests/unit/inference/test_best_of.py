"""Best of several K: the same model with K = 1 chooses, says how sure it is, and writes again what it doubts."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from recoversat.config import QUALITIES, parse_config
from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Ints
from recoversat.engines.engine import Engine, Options, Sources
from recoversat.engines.pairs import Pair
from recoversat.errors import UserError
from recoversat.inference.best_of import BestOf, neighbours
from recoversat.inference.request import modes_for
from recoversat.pipeline.options import TranslateOptions
from recoversat.pipeline.outputs import Job
from recoversat.pipeline.translate_files import translate_jobs, translate_texts
from recoversat.segments import assemble
from recoversat.vocab import EOS
from tests.unit.inference.by_count import writes

# (source, K) -> segments; then the log-probability of each token of a target with K = 1
WRITES = {
    (7, 1): [[11, 12, EOS]],
    (7, 2): [[11, EOS], [13, EOS]],
    (7, 3): [[14, EOS], [EOS], [15, 16, EOS]],
    (8, 1): [[21, EOS]],
    (8, 2): [[22, 23, EOS], [24, EOS]],
    (8, 3): [[22, EOS], [23, EOS], [24, EOS]],
}
LIKELY = {11: -0.1, 12: -0.3, 13: -0.4, 14: -0.1, 15: -0.3, 16: -0.3, 21: -3.0, 22: -0.2, 23: -6.0, 24: -0.2, EOS: -0.2}


@dataclass
class Judging(Engine):
    """An engine that writes and scores what the tables say, and remembers what it was asked."""

    decoded: list[list[tuple[int, int]]] = field(default_factory=list)
    scored: list[list[tuple[int, ...]]] = field(default_factory=list)
    max_segments = 3

    def decode(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> list[Decoded]:
        asked = [(source[0], k) for source, k in zip(sources, n_segments.tolist(), strict=True)]
        self.decoded.append(asked)
        written = [[list(segment) for segment in WRITES[one]] for one in asked]
        log_probs = [[[LIKELY[token] for token in segment] for segment in one] for one in written]
        return [
            Decoded(one, scores if options.scores else [[] for _ in one], max(map(len, one)))
            for one, scores in zip(written, log_probs, strict=True)
        ]

    def search(self, sources: Sources, beam: int, options: Options = Options()) -> list[Decoded]:
        raise AssertionError("nobody asked for a beam")

    def score(self, pairs: Sequence[Pair], n_segments: int = 1) -> list[Decoded]:
        self.scored.append([tuple(target) for _, target in pairs])
        return [Decoded([[*ids, EOS]], [[LIKELY[token] for token in [*ids, EOS]]], len(ids) + 1) for _, ids in pairs]


def plainly(_: int, decoded: Decoded) -> list[int]:
    return assemble(decoded.segments)


def test_the_likeliest_mean_wins_and_the_pass_that_judges_is_counted() -> None:
    engine = Judging()
    seven, eight = BestOf(engine).decode([[7], [8]], [(1, 2, 3), (2, 3)], Options(), plainly)
    assert engine.decoded == [[(7, 1), (7, 2), (7, 3), (8, 2), (8, 3)]]  # all together
    assert engine.scored == [[(11, 12), (11, 13), (14, 15, 16), (22, 23, 24)]]  # what is the same is scored once
    assert seven.segments == WRITES[7, 1]  # -0.2 a token; the others -0.233 and -0.225
    assert seven.judged == [-0.1, -0.3, -0.2]
    assert (seven.steps, eight.steps) == (3 + 1, 3 + 1)  # the longest of all candidates, and one
    assert eight.segments == WRITES[8, 2]  # the first of equals


@pytest.mark.parametrize("counts", [(2, 3), (3, 2), (2, 1, 3), (3, 1, 2)])
@pytest.mark.parametrize(("chosen", "own_steps"), [(2, 3), (3, 2)])
def test_the_longest_candidate_counts_as_steps_whichever_is_chosen(
    counts: tuple[int, ...], chosen: int, own_steps: int
) -> None:
    def ids_of(_: int, one: Decoded) -> list[int]:
        return [22] if len(one.segments) == chosen else [23]  # likely, or not

    (eight,) = BestOf(Judging()).decode([[8]], [counts], Options(), ids_of)
    assert eight.segments == WRITES[8, chosen]
    assert max(map(len, eight.segments)) == own_steps
    assert eight.steps == 3 + 1


def test_what_a_reader_would_get_is_what_is_judged() -> None:
    engine = Judging()
    BestOf(engine).decode([[7]], [(2, 3)], Options(), lambda b, one: [*assemble(one.segments)[:1], b + 21])
    assert engine.scored == [[(11, 21), (14, 21)]]


def test_what_is_doubted_is_written_again_as_one_segment() -> None:
    engine = Judging()
    seven, eight = BestOf(engine, doubt=-5.0).decode([[7], [8]], [(2, 3), (2,)], Options(scores=False), plainly)
    assert engine.decoded[1:] == [[(8, 1)]]
    assert eight.segments == WRITES[8, 1]
    assert eight.as_one == [-3.0, -0.2]  # scored, though nobody asked for scores: it is a confidence
    assert eight.steps == 3 + 1 + 2
    assert len(seven.segments) == 3


def test_one_segment_is_never_doubted() -> None:
    engine = Judging()
    BestOf(engine, doubt=-1.0).decode([[8]], [(1,)], Options(), plainly)
    assert len(engine.decoded) == 1


def test_candidates_are_around_the_k_of_the_length() -> None:
    choices = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16]
    assert neighbours(np.array([1, 2, 5, 16]), choices, 2) == [(1,), (2, 3), (4, 5), (12, 16)]
    assert neighbours(np.array([1, 2, 3]), [1, 2, 3], 2) == [(1,), (2, 3), (2, 3)]
    assert neighbours(np.array([1, 2, 3]), [1, 2, 3], 3) == [(1,), (1, 2, 3), (1, 2, 3)]  # there are no others
    assert neighbours(np.array([5, 10]), choices, 3) == [(4, 5, 6), (8, 10, 12)]
    assert neighbours(np.array([2]), [1, 2], 5) == [(1, 2)]


# a script's token t has log-probability -(t + 1) / 10: the shorter one is the likelier
SCRIPTS = {
    ("no number", 2): ["no EOS", "number EOS"],
    ("no number", 1): ["8 EOS"],
    ("number no", 2): ["7 EOS", "EOS"],
    ("number no", 1): ["7 8 EOS"],
    ("no", 1): ["no EOS"],
    ("no", 2): ["no EOS", "EOS"],
}


def test_a_translator_chooses_sentence_by_sentence_and_says_how_sure_it_is() -> None:
    translator = writes(SCRIPTS)
    texts = ["no number", "", "number no", "no"]
    found = translator.translate(texts, best_of=2, scores=False)
    assert [one.text for one in found] == ["8", "", "7", "no"]
    assert found == translator.translate(texts, segments=(1, 2), scores=False)
    assert [one.text for one in translator.translate(texts)] == ["no number", "", "7", "no"]
    sure = pytest.approx(math.exp(-0.15))  # one token and EOS
    assert [one.confidence for one in found] == [sure, None, sure, sure]
    assert [len(one.segments) for one in found] == [1, 0, 2, 1]
    for several in ((1, 2), [1, 2]):
        assert list(translator.translate_iterable(texts, segments=several, batch_size=1, scores=False)) == found


def test_confidence_is_known_of_any_translation_that_is_asked_for_it() -> None:
    translator = writes(SCRIPTS)
    plain, asked = (translator.translate(["no number"], confidence=wanted)[0] for wanted in (False, True))
    assert (plain.confidence, asked.text) == (None, "no number")
    assert asked.confidence == pytest.approx(math.exp(-0.2))  # no, number, EOS in one segment
    assert translator.translate(["no number"], segments=1)[0].confidence == pytest.approx(math.exp(-0.15))


def test_a_repair_is_judged_too() -> None:
    scripts = {("no 7 8", 2): ["7 EOS", "7 EOS"], ("no 7 8", 1): ["7 8 EOS"]}
    translator = writes(scripts, check_numbers=True)
    (found,) = translator.translate(["no 7 8"], segments=(2,), scores=False)
    assert (found.text, found.repairs) == ("7 8", ("check_numbers",))
    assert found.confidence == pytest.approx(math.exp(-0.2))


def test_what_is_judged_has_been_mended() -> None:
    scripts = {("no number", 2): ["no number EOS", "number EOS"], ("no number", 1): ["8 8 EOS"]}
    joined, kept = (writes(scripts, join_overlaps=wanted) for wanted in (True, False))
    assert joined.translate(["no number"], segments=(2, 1))[0].text == "no number"  # as likely, and first
    assert kept.translate(["no number"], segments=(2, 1))[0].text == "8 8"


def test_parts_of_a_long_text_share_a_confidence() -> None:
    translator = writes(SCRIPTS)
    short = translator.config.data.model_copy(update={"max_tokens": 2})
    translator.config = translator.config.model_copy(update={"data": short})
    (found,) = translator.translate(["no number no"], best_of=2, scores=False)
    assert found.text == "8 no"
    assert found.confidence == pytest.approx(math.exp(-0.15))


def test_the_dial_is_a_setting_of_a_model_and_of_a_call() -> None:
    assert QUALITIES["fast"]["best_of"] == 1
    translator = writes(SCRIPTS, best_of=3)
    assert translator.translate(["no number"])[0].text == "8"
    assert translator.translate(["no number"], quality="fast")[0].text == "no number"
    (named,) = translator.translate(["no number"], segments=2)
    assert (named.text, named.confidence) == ("no number", None)  # a K that is named is taken, and there is no choice
    translator.set_decoding(quality="best", tolerance=0.2)
    assert (translator.config.decode.exact, translator.config.decode.tolerance) == (True, 0.2)
    with pytest.raises(UserError, match="best_of 2: with quality 'best' one K drafts"):
        translator.translate(["no number"], quality="best", best_of=2)
    with pytest.raises(UserError, match="quality: there are fast, balanced, best"):
        translator.translate(["no number"], quality="good")
    with pytest.raises(UserError, match="quality: there are fast, balanced, best"):
        writes(SCRIPTS, quality="good")


def test_json_lines_say_how_sure_the_model_is(tmp_path) -> None:
    (tmp_path / "in").write_text('{"text": "no number"}\n{"text": ""}\n')
    translator = writes(SCRIPTS)
    for best_of, confidence in ((2, ', "confidence": 0.8607'), (1, "")):
        translator.set_decoding(best_of=best_of)
        translate_jobs(translator, [Job([tmp_path / "in"], tmp_path / "out")], TranslateOptions(jsonl=True))
        first, second = (tmp_path / "out").read_text().splitlines()
        assert first.endswith(f'"translation": "{"8" if best_of > 1 else "no number"}"{confidence}}}')
        assert second == '{"text": "", "translation": ""}'


def test_json_lines_say_how_sure_k_1_is_where_it_writes_and_take_no_pass_for_it(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").write_text('{"text": "no number"}\n{"text": "no"}\n{"text": "no number\\nno"}\n')
    translator = writes(SCRIPTS)
    asked_of_engine: list[tuple[list[int], bool]] = []
    decode = translator.engine.decode

    def noting(sources: Sources, n_segments: Ints, options: Options = Options()) -> list[Decoded]:
        asked_of_engine.append((n_segments.tolist(), options.scores))
        return decode(sources, n_segments, options)

    monkeypatch.setattr(translator.engine, "decode", noting)
    monkeypatch.setattr(translator.engine, "score", None)  # nothing is read once more

    def told(**more: object) -> list[float | None]:
        asked_of_engine.clear()
        asked = TranslateOptions(batch_size=1, jsonl=True, **more)
        translate_jobs(translator, [Job([tmp_path / "in"], tmp_path / "out")], asked)
        return [json.loads(line).get("confidence") for line in (tmp_path / "out").read_text().splitlines()]

    sure = round(math.exp(-0.15), 4)  # one token and EOS
    assert told(segments=1) == [sure, sure, None]
    assert told() == [None, sure, None]  # a short sentence is written in one segment
    assert {scores for k, scores in asked_of_engine if k == [2]} == {False}
    assert [scores for k, scores in asked_of_engine if k == [1]] == [True, False]  # that with line breaks tells none
    assert told(segments=2) == [None, None, None]
    assert told(segments=1, workers=2) == [None, None, None]  # they hand on nothing but texts
    assert told(segments=1, min_confidence=0.9) == [sure, sure, sure]
    translator.set_decoding(quality="exact")
    assert told() == told(segments=1) == [sure, sure, None]


def test_models_that_know_nothing_of_segments_tell_no_confidence() -> None:
    translator = writes(SCRIPTS)
    asked = TranslateOptions(segments=1, jsonl=True)
    assert translate_texts(translator, ["no"], asked)[0].confidence
    model = translator.config.model.model_copy(update={"kind": "ctc"})
    translator.config = translator.config.model_copy(update={"model": model})
    assert translate_texts(translator, ["no"], asked)[0].confidence is None


@pytest.mark.parametrize("asked", [{"best_of": 2}, {"quality": "best"}, {"segments": (1, 2)}])
def test_what_does_not_go_together_is_refused(asked: dict[str, object]) -> None:
    translator = writes(SCRIPTS)
    with pytest.raises(UserError, match="go without forced words"):
        translator.translate(["no number"], force=["1:1=no"], **asked)
    with pytest.raises(UserError, match="go without forced words"):
        translator.translate(["no number"], forced=[{(0, 0): 7}], **asked)
    with pytest.raises(UserError, match="go without a beam"):
        translator.translate(["no number"], beam=2, **asked)
    nat = parse_config({"model": {"kind": "nat"}, "train": {"segments": 1}})
    modes = {"segments": None, "quality": None, "best_of": None} | asked
    with pytest.raises(UserError, match="of kind 'nat' does not judge what it wrote"):
        modes_for(nat, **modes, beam=1, forced=False)
    with pytest.raises(UserError, match="trained for K = 1 too"):
        modes_for(parse_config({"train": {"segments": [2, 5]}}), **modes, beam=1, forced=False)


def test_k_is_named_once() -> None:
    for segments in (2, (1, 2)):
        with pytest.raises(UserError, match="best_of 2: segments names"):
            writes(SCRIPTS).translate(["no number"], segments=segments, best_of=2)
    for segments in ((), (1, "auto2"), (True,)):
        with pytest.raises(UserError, match="whole number"):
            writes(SCRIPTS).translate(["no number"], segments=segments)


def test_what_a_model_is_set_to_gives_way_to_forced_words_and_beams() -> None:
    translator = writes(SCRIPTS, best_of=3, doubt=-5)
    assert translator.translate(["no number"], force=["2:1=8"])[0].text == "no 8"
    assert translator.translate(["no number"], beam=2)[0].text == "8"
