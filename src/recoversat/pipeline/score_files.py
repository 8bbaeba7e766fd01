"""Log-probabilities of the lines of two aligned files."""

import json
import math
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from recoversat.data.prepare import TextPairs
from recoversat.engines.loading import ComputeType, EngineOptions, load_engine
from recoversat.errors import UserError
from recoversat.files.model_folder import WEIGHTS, model_folder, read_config
from recoversat.text.directions import choose_direction, directed, encode_directed
from recoversat.text.tokenizer import load_tokenizer

_BLOCK = 4096


def score_lines(
    model: Path | None, src: Path, tgt: Path, *, segments: int, jsonl: bool, device: str,
    source: str | None = None, target: str | None = None,
) -> Iterator[str]:  # fmt: skip
    """Yield a line for each pair: its log-probability, or a JSON object with every token's."""
    folder = model_folder(model, source, target)
    config, _ = read_config(folder)
    if config.model.kind != "segments":
        raise UserError(
            f"{model}: a model of kind {config.model.kind!r} gives no probability to a whole translation; use a teacher"
        )
    if segments > config.model.max_segments:
        raise UserError(f"--segments {segments}: this model writes 1 to {config.model.max_segments} segments")
    precision: ComputeType = "float32" if (folder / WEIGHTS).is_file() else "default"
    tokenizer, engine = load_tokenizer(folder), load_engine(folder, config.model, EngineOptions(device, precision))
    _, into = choose_direction(config.data, source, target)
    pairs = enumerate(TextPairs(src, tgt), 1)
    while block := list(islice(pairs, _BLOCK)):
        for number, (text, translation) in block:
            if not text.strip() or not translation.strip():
                raise UserError(f"{src if not text.strip() else tgt}, line {number}: empty; nothing to score")
        each = directed([text for _, (text, _) in block], config.data, into)
        targets = tokenizer.encode_targets([translation for _, (_, translation) in block])
        scored = engine.score(list(zip(encode_directed(each, tokenizer, config.data), targets, strict=True)), segments)
        for (number, _), one in zip(block, scored, strict=True):
            log_probs = list(chain(*one.log_probs))
            if -math.inf in log_probs:
                raise UserError(f"{tgt}, line {number}: holds something that this model cannot write")
            if jsonl:
                tokens = tokenizer.pieces(list(chain(*one.segments)))  # every EOS among them
                record = {"log_prob": sum(log_probs), "tokens": tokens, "token_log_probs": log_probs}
                yield json.dumps(record, ensure_ascii=False)
            else:
                yield f"{sum(log_probs):.4f}"
