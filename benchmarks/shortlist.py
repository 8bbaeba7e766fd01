"""What a shortlist changes and what it saves, in one run; one core, sentence by sentence, with and without in turn.

    taskset -c 1 python benchmarks/shortlist.py MODEL --src test.en --tgt test.de --to de --segments auto 10 1
    taskset -c 1 python benchmarks/shortlist.py --untrained --d-model 256 --d-hidden 1536 --decoder-layers 2 --list 1000

Prints the share of equal translations, the mean size of a list, BLEU with and without, and milliseconds a sentence: the
fastest of several rounds of each sentence, as other work only adds. Beside it stands the time of the processor, which
other work changes less. An untrained model has a table that leads to lists of a given size and writes a fixed number
of tokens (source of 25, as benchmarks/onnx_step.py).
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from recoversat.config import ModelConfig
from recoversat.engines.engine import Options
from recoversat.engines.onnx.engine import OnnxEngine
from recoversat.engines.onnx.shortlist import TABLE, Shortlist
from recoversat.export.onnx import export_model
from recoversat.export.onnx_shortlist import add_listed_graphs
from recoversat.files.storage import lines_of
from recoversat.measuring.quality.metrics import corpus_bleu
from recoversat.measuring.speed.untrained import made_up_ranges, random_weights
from recoversat.translator import Translator
from recoversat.vocab import DEL, EOS

WAYS = {"with": True, "without": False}


def fastest(cases: dict[str, Callable[[], object]], rounds: int) -> dict[str, tuple[float, float]]:
    """Run the cases in turn and return milliseconds of each, by the clock and of the processor."""
    best = dict.fromkeys(cases, (np.inf, np.inf))
    for _ in range(rounds):
        for name, case in cases.items():
            clock, processor = time.perf_counter(), time.process_time()
            case()
            taken = time.perf_counter() - clock, time.process_time() - processor
            best[name] = (min(best[name][0], 1e3 * taken[0]), min(best[name][1], 1e3 * taken[1]))
    return best


def trained(args: argparse.Namespace) -> None:
    """Compare translations of a test set."""
    translators = {name: Translator(args.model, target=args.to, intra_threads=1) for name in WAYS}
    for name, shortlist in WAYS.items():
        translators[name].set_decoding(shortlist=shortlist)
    lists = translators["with"].engine._lists
    if not lists:
        raise SystemExit(f"{args.model} has no shortlist")
    sources, references = (list(islice(lines_of(path), args.sentences)) for path in (args.src, args.tgt))
    sizes = lists._table.members(translators["with"]._encode(sources)).sum(axis=1)
    print(f"{len(sources):,} sentences, lists of {sizes.mean():.0f} pieces (largest {sizes.max():,})")
    for k in args.segments:
        wanted = int(k) if k.isdecimal() else "auto"
        texts = {
            name: [one.text for one in each.translate(sources, segments=wanted, scores=False)]
            for name, each in translators.items()
        }
        same = sum(one == other for one, other in zip(*texts.values(), strict=True))
        bleu = [corpus_bleu(written, references).value for written in texts.values()]
        print(f"K = {k}: {100 * same / len(sources):.2f} % the same, BLEU {bleu[0]:.2f} with, {bleu[1]:.2f} without")
        each_ms: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
        for text in sources[:: max(1, len(sources) // args.timed)]:
            cases: dict[str, Callable[[], object]] = {
                name: partial(one.translate, [text], segments=wanted, scores=False) for name, one in translators.items()
            }
            for name, taken in fastest(cases, args.rounds).items():
                each_ms[name].append(taken)
        for name, taken in each_ms.items():
            clock, processor = np.mean(taken, axis=0)
            print(f"  {name:8} {clock:6.2f} ms a sentence, {processor:6.2f} of the processor ({len(taken)} sentences)")


def untrained(args: argparse.Namespace) -> None:
    """Time an engine whose weights are random."""
    config = ModelConfig(
        d_model=args.d_model, d_hidden=args.d_hidden, n_heads=8, encoder_layers=6,
        decoder_layers=args.decoder_layers, vocab_size=args.vocabulary,
    )  # fmt: skip
    rng, v = np.random.default_rng(1), args.vocabulary
    source = rng.integers(5, v, 25).tolist()
    common = np.zeros((1, v), dtype=np.bool_)
    common[0, [EOS, DEL, *rng.integers(5, v, args.list)]] = True
    with tempfile.TemporaryDirectory() as folder:
        weights = random_weights(config)
        [exported] = export_model(weights, config, Path(folder), ("int8",), made_up_ranges(weights))
        add_listed_graphs(exported)
        Shortlist(np.full((v, 1), EOS), np.empty(0, dtype=np.int64), common).save(Path(folder) / TABLE)
        engine = OnnxEngine(exported, config)
    for batch in args.batches:
        for lives in (np.array([25]), np.full(5, 6), np.array([3, 4, 3, 4, 5, 3, 3, 4, 3, 3])):
            sources, counts = [source] * batch, np.full(batch, len(lives))
            cases: dict[str, Callable[[], object]] = {
                name: partial(engine.decode, sources, counts, Options(lives=lives, scores=False, shortlist=on))
                for name, on in WAYS.items()
            }
            for name, (clock, processor) in fastest(cases, args.rounds).items():
                print(f"batch {batch:2} K = {len(lives):2} {name:8} {clock:7.2f} ms, {processor:7.2f} of the processor")


def main() -> None:
    """Read what is wanted and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--src", type=Path)
    parser.add_argument("--tgt", type=Path)
    parser.add_argument("--to")
    parser.add_argument("--segments", nargs="+", default=["auto"])
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--timed", type=int, default=100, help="sentences that are timed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--untrained", action="store_true")
    parser.add_argument("--d-model", type=int, default=512)
    parser.add_argument("--d-hidden", type=int, default=512)
    parser.add_argument("--decoder-layers", type=int, default=6)
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--list", type=int, default=1000)
    parser.add_argument("--batches", type=int, nargs="+", default=[1])
    args = parser.parse_args()
    if args.untrained:
        untrained(args)
    elif args.model and args.src and args.tgt:
        trained(args)
    else:
        parser.error("give MODEL, --src and --tgt, or --untrained")


if __name__ == "__main__":
    main()
