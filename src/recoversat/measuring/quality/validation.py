"""Validation text translated, and its BLEU as a callback for training."""

from collections.abc import Callable, Sequence

from recoversat.config import Config
from recoversat.data.corpus import Corpus
from recoversat.measuring.quality.metrics import corpus_bleu
from recoversat.model.build import Model
from recoversat.text.directions import directed, translate_directed
from recoversat.translator import Translator


def bleu_validator(corpus: Corpus, config: Config, batch_size: int = 128) -> Callable[[Model], float] | None:
    """Return a function from a model to its BLEU, or None where the corpus has no validation text."""
    if not corpus.valid_src:
        return None
    config = config.model_copy(update={"data": corpus.config})  # as `train` does

    def validate(model: Model) -> float:
        from recoversat.engines.loading import engine_for

        engine = engine_for(model, next(model.parameters()).device)
        written = translate_valid(Translator.of(engine, corpus.tokenizer, config), corpus.valid_src, batch_size)
        return corpus_bleu(written, corpus.valid_references).value

    return validate


def translate_valid(
    translator: Translator, sources: Sequence[str], batch_size: int, segments: int | None = None
) -> list[str]:
    """Translate validation text, each line into the language that its tag names.

    Whatever is usual for the model: its segments themselves are what is trained, and what a precision may spoil.
    """
    data, quality = translator.config.data, None if segments else "fast"
    translations = translate_directed(
        directed(sources, data, data.tgt_lang),
        lambda into, texts: translator.into(into).translate(
            texts, segments=segments, batch_size=batch_size, quality=quality
        ),
    )
    return [one.text for one in translations]
