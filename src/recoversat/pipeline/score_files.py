"""Log-probabilities of the lines of two aligned files."""

import json
import math
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from recoversat.data.prepare import TextPairs
from recoversat.errors import UserError
from recoversat.inference.forcing import force_whole
from recoversat.text.directions import directed, encode_directed
from recoversat.translator import Translator

_BLOCK = 4096


def score_lines(translator: Translator, src: Path, tgt: Path, *, segments: int, jsonl: bool) -> Iterator[str]:
    """Yield a line for each pair: its log-probability, or a JSON object with every token's."""
    tokenizer, data = translator.tokenizer, translator.config.data
    pairs = enumerate(TextPairs(src, tgt), 1)
    while block := list(islice(pairs, _BLOCK)):
        for number, (text, translation) in block:
            if not text.strip() or not translation.strip():
                raise UserError(f"{src if not text.strip() else tgt}, line {number}: empty; nothing to score")
        each = directed([text for _, (text, _) in block], data, translator.target)
        targets = tokenizer.encode([translation for _, (_, translation) in block])
        sources = encode_directed(each, tokenizer, data)
        scored = translator.score_ids(list(zip(sources, targets, strict=True)), segments=segments)
        for (number, _), ids, decoded in zip(block, targets, scored, strict=True):
            log_probs = list(chain(*decoded.log_probs))
            if -math.inf in log_probs:
                raise UserError(f"{tgt}, line {number}: holds something that this model cannot write")
            if jsonl:
                tokens = tokenizer.pieces(list(force_whole(ids, segments).values()))  # every EOS among them
                record = {"log_prob": sum(log_probs), "tokens": tokens, "token_log_probs": log_probs}
                yield json.dumps(record, ensure_ascii=False)
            else:
                yield f"{sum(log_probs):.4f}"
