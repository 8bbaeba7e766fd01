"""Log-probabilities of the lines of two aligned files."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from recoversat.data.prepare import TextPairs
from recoversat.errors import UserError
from recoversat.files.builtin import builtin_model
from recoversat.files.model_folder import WEIGHTS, read_config, resolve_model
from recoversat.inference.forcing import force_whole
from recoversat.text.directions import choose_direction, directed, encode_directed
from recoversat.text.tokenizer import load_tokenizer

_BLOCK = 4096
Pair = tuple[Sequence[int], Sequence[int]]
Scorer = Callable[[list[Pair]], list[list[float]]]  # log-probabilities of each target's tokens and of every EOS


def score_lines(
    model: Path | None, src: Path, tgt: Path, *, segments: int, jsonl: bool, device: str,
    source: str | None = None, target: str | None = None,
) -> Iterator[str]:  # fmt: skip
    """Yield a line for each pair: its log-probability, or a JSON object with every token's."""
    folder = resolve_model(model) if model else builtin_model(source, target)
    config, _ = read_config(folder)
    if config.model.kind != "segments":
        raise UserError(f"{model}: a one-step model gives no probability to a whole translation; use a teacher")
    if segments > config.model.max_segments:
        raise UserError(f"--segments {segments}: this model writes 1 to {config.model.max_segments} segments")
    tokenizer, score = load_tokenizer(folder), _scorer(folder, segments, device)
    _, into = choose_direction(config.data, source, target)
    pairs = enumerate(TextPairs(src, tgt), 1)
    while block := list(islice(pairs, _BLOCK)):
        for number, (text, translation) in block:
            if not text.strip() or not translation.strip():
                raise UserError(f"{src if not text.strip() else tgt}, line {number}: empty; nothing to score")
        each = directed([text for _, (text, _) in block], config.data, into)
        targets = tokenizer.encode([translation for _, (_, translation) in block])
        scores = score(list(zip(encode_directed(each, tokenizer, config.data), targets, strict=True)))
        for (number, _), ids, log_probs in zip(block, targets, scores, strict=True):
            if -math.inf in log_probs:
                raise UserError(f"{tgt}, line {number}: holds something that this model cannot write")
            if jsonl:
                tokens = tokenizer.pieces(list(force_whole(ids, segments).values()))  # every EOS among them
                record = {"log_prob": sum(log_probs), "tokens": tokens, "token_log_probs": log_probs}
                yield json.dumps(record, ensure_ascii=False)
            else:
                yield f"{sum(log_probs):.4f}"


def _scorer(folder: Path, segments: int, device: str) -> Scorer:
    """Score all tokens at once where there are torch weights, else one after the other with the exported model."""
    if not (folder / WEIGHTS).is_file():
        from recoversat.translator import Translator

        translator = Translator(folder, device=device)
        return lambda pairs: [
            list(chain(*decoded.log_probs)) for decoded in translator.score_ids(pairs, segments=segments)
        ]
    from recoversat.engines.torch.scoring import score_pairs
    from recoversat.model.device import torch_device
    from recoversat.model.transformer import Transformer
    from recoversat.model.weights import load_model

    network, _ = load_model(folder)
    assert isinstance(network, Transformer)
    place = torch_device(device)
    return lambda pairs: [score.token_log_probs for score in score_pairs(network, pairs, segments, place)]
