"""What the scripts in benchmarks/ put around an engine goes with the engines of today."""

import pytest

from benchmarks.rules import Remembering


def test_rules_decodes_a_source_once_and_traces_it_anew(scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = scripted({"a b": ["the EOS"], "c": ["gas EOS"]})
    plain, asked = translator.engine.decode, []
    monkeypatch.setattr(translator.engine, "decode", lambda *how: (asked.append(len(how[0])), plain(*how))[1])
    translator.engine = Remembering(translator.engine)
    for texts in (["a b"], ["a b", "c"], ["c", "a b"]):
        written = [one.text for one in translator.translate(texts)]
        assert written == [{"a b": "the", "c": "gas"}[text] for text in texts]
    assert asked == [1, 1]
    translator.translate(["c"], alternatives=2)
    assert asked == [1, 1, 1]
