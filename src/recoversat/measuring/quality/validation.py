"""BLEU on a corpus's validation text, as a callback for training."""

from collections.abc import Callable

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
    each = directed(corpus.valid_src, corpus.config, corpus.config.tgt_lang)

    def validate(model: Model) -> float:
        from recoversat.engines.loading import engine_for

        engine = engine_for(model, next(model.parameters()).device)
        translator = Translator.of(engine, corpus.tokenizer, config)
        translations = translate_directed(
            each, lambda into, texts: translator.into(into).translate(texts, batch_size=batch_size)
        )
        return corpus_bleu([one.text for one in translations], corpus.valid_references).value

    return validate
