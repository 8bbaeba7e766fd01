"""Log-probabilities of the lines of two aligned files."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from recoversat.data.prepare import TextPairs
from recoversat.directions import choose_direction, directed, encode_directed
from recoversat.engines.scoring import score_pairs
from recoversat.errors import UserError
from recoversat.model.device import torch_device
from recoversat.model.transformer import Transformer
from recoversat.model.weights import load_model
from recoversat.model_folder import resolve_model
from recoversat.text.tokenizer import load_tokenizer

_BLOCK = 4096


def score_lines(
    model: Path, src: Path, tgt: Path, *, segments: int, jsonl: bool, device: str, target: str | None = None
) -> Iterator[str]:
    """Yield a line for each pair: its log-probability, or a JSON object with every token's."""
    folder = resolve_model(model)
    network, config = load_model(folder)
    if not isinstance(network, Transformer):
        raise UserError(f"{model}: a one-step model gives no probability to a whole translation; use a teacher")
    if segments > config.model.max_segments:
        raise UserError(f"--segments {segments}: this model writes 1 to {config.model.max_segments} segments")
    tokenizer = load_tokenizer(folder)
    _, into = choose_direction(config.data, None, target)
    pairs = enumerate(TextPairs(src, tgt), 1)
    while block := list(islice(pairs, _BLOCK)):
        for number, (source, translation) in block:
            if not source.strip() or not translation.strip():
                raise UserError(f"{src if not source.strip() else tgt}, line {number}: empty; nothing to score")
        each = directed([source for _, (source, _) in block], config.data, into)
        sources = encode_directed(each, tokenizer, config.data)
        targets = tokenizer.encode([translation for _, (_, translation) in block])
        ids = list(zip(sources, targets, strict=True))
        for (_, target_ids), score in zip(ids, score_pairs(network, ids, segments, torch_device(device)), strict=True):
            if jsonl:
                record = {"log_prob": score.log_prob, "tokens": tokenizer.pieces(target_ids)}
                yield json.dumps(record | {"token_log_probs": score.token_log_probs}, ensure_ascii=False)
            else:
                yield f"{score.log_prob:.4f}"
