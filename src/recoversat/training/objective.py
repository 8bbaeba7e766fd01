"""What a model is trained to do with a batch."""

from recoversat.data.batching import Batch
from recoversat.model.build import Model
from recoversat.model.transformer import Transformer
from recoversat.training.loss import Loss, smoothed_cross_entropy
from recoversat.training.nat_loss import nat_loss, nat_rows


def batch_loss(model: Model, batch: Batch, smoothing: float, fused: bool) -> Loss:
    """Predict every labelled row of a batch (and, for the one-step baseline, every length)."""
    if isinstance(model, Transformer):
        hidden = model(
            batch.src_tokens, batch.src_positions, batch.src_sentence,
            batch.tokens, batch.steps, batch.segments, batch.sentence,
        )  # fmt: skip
        return smoothed_cross_entropy(hidden, model.embedding.weight, batch.labels, smoothing, fused)
    batch = nat_rows(batch)
    hidden, length_logits = model(
        batch.src_tokens, batch.src_positions, batch.src_sentence, batch.steps, batch.sentence
    )  # fmt: skip
    return nat_loss(hidden, length_logits, model.embedding.weight, batch, smoothing, fused)
