"""Validation while a model is trained."""

from types import SimpleNamespace

import torch

from recoversat.config import parse_config
from recoversat.engines import loading
from recoversat.measuring.quality import validation


def test_segments_are_validated_whatever_is_usual_for_the_model(scripted, tokenizer, monkeypatch) -> None:
    plain = scripted({"a": ["a EOS"], "b": ["b EOS"]})
    config = parse_config(plain.config.model_dump() | {"decode": {"usual": "exact"}})
    corpus = SimpleNamespace(valid_src=["a", "b"], valid_references=["a", "b"], config=config.data, tokenizer=tokenizer)
    asked = []

    def watch(translator, sources, batch_size):
        asked.append(translator.config.decode.usual)
        return sources

    monkeypatch.setattr(loading, "engine_for", lambda model, device: plain.engine)
    monkeypatch.setattr(validation, "translate_valid", watch)
    validate = validation.bleu_validator(corpus, config)  # type: ignore[arg-type]
    assert validate
    validate(torch.nn.Linear(1, 1))  # type: ignore[arg-type]
    assert asked == ["fast"]
