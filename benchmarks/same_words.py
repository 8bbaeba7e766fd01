"""Count on whole test sets how often `exact` writes what K = 1 writes, in fp32, by the engine in torch.

    python benchmarks/same_words.py test.en --from en --to de [--sentences 2000] [--model FOLDER]

The weights are those of an exported int8 model (default: the built-in one), multiplied out. K = 1 writes in batches, of
like lengths, `exact` every sentence by itself, drafted by length. For int8 `recoversat translate` is enough: its output
with `--segments 1`, and with `--exact --segments auto --batch-size 1`.
"""

import argparse
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from recoversat import Translator
from recoversat.engines.engine import Options
from recoversat.engines.loading import engine_for
from recoversat.files.model_folder import builtin_model, read_config
from recoversat.files.storage import lines_of
from recoversat.inference.exact import decode_exactly
from recoversat.model.exported import exported_weights
from recoversat.model.transformer import Transformer
from recoversat.model.weights import fill
from recoversat.text.tokenizer import load_tokenizer

FINER = 2  # times the segments of "auto", as `exact` drafts
BATCH = 32


def translator_of(folder: Path, target: str) -> Translator:
    """Return a translator of the multiplied out model, in fp32."""
    config, _ = read_config(folder)
    model = Transformer(config.model).eval()
    fill(model, exported_weights(folder), folder)
    return Translator.of(engine_for(model, torch.device("cpu")), load_tokenizer(folder), config).into(target)


def main() -> None:
    """Print how many are the same, and which are not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--from", dest="origin", default="en")
    parser.add_argument("--to", default="de")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--model", type=Path)
    args = parser.parse_args()
    translator = translator_of(args.model or builtin_model(args.origin, args.to), args.to)
    engine, sources = translator.engine, translator.encode(list(islice(lines_of(args.source), args.sentences)))
    order = sorted(range(len(sources)), key=lambda at: len(sources[at]))
    written = {}
    for first in range(0, len(order), BATCH):
        places = order[first : first + BATCH]
        some = engine.decode([sources[at] for at in places], np.ones(len(places), dtype=np.int64))
        written |= dict(zip(places, some, strict=True))
    others = []
    for at, source in enumerate(sources):
        counts = translator.segment_counts("auto", [FINER * len(source)])
        (exact,) = decode_exactly(engine, [source], counts, Options(scores=False))
        if exact.segments != written[at].segments:
            others.append(at + 1)
    lines = f", not lines {', '.join(map(str, others))}" if others else ""
    print(f"{len(sources) - len(others):,} of {len(sources):,} have the words of K = 1{lines}")


if __name__ == "__main__":
    main()
