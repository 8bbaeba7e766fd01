"""What a shortlist changes and what it saves, in one run; one core, sentence by sentence, with and without in turn.

    taskset -c 1 python benchmarks/shortlist.py MODEL --src test.en --tgt test.de --to de --segments auto 10 1
    taskset -c 1 python benchmarks/shortlist.py --untrained 6+2:256/1536 8+1:320/1280 --vocabulary 14000 --list 1000

Ways: "verified" over the whole vocabulary, the "list" alone, and "without". Prints the share of translations equal to
those without, the mean size of a list, BLEU, and milliseconds a sentence: the fastest of several rounds of each
sentence, as other work only adds. Beside it stands the time of the processor, which other work changes less. Untrained
models (layers of encoder and decoder, d_model and d_hidden; several are timed in turn) have a table that leads to lists
of a given size and write a fixed number of tokens (source of 25, as benchmarks/onnx_step.py; by its length K is 5).
"""

import argparse
import re
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from recoversat.config import ModelConfig
from recoversat.engines.engine import Options
from recoversat.engines.native.engine import NativeEngine
from recoversat.engines.vocabulary import TABLE, Shortlist
from recoversat.export.int8 import quantised
from recoversat.files.int8 import write_int8
from recoversat.files.model_folder import resolve_model
from recoversat.files.storage import lines_of
from recoversat.measuring.quality.metrics import corpus_bleu
from recoversat.measuring.speed.untrained import made_up_ranges, random_weights
from recoversat.translator import Translator
from recoversat.vocab import DEL, EOS

WAYS: dict[str, dict[str, bool]] = {
    "verified": {"shortlist": True, "verified": True},
    "list": {"shortlist": True, "verified": False},
    "without": {"shortlist": False, "verified": True},
}
LIVES = {1: np.array([25]), 5: np.array([7, 5, 6, 6, 6]), 10: np.array([5, 3, 4, 4, 4, 3, 3, 3, 3, 3])}


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
    options = {"target": args.to, "device": "cpu", "compute_type": args.compute_type, "intra_threads": 1}
    translators = {name: Translator(args.model, **options) for name in WAYS}
    for name, way in WAYS.items():
        translators[name].set_decoding(shortlist=way["shortlist"], verify_shortlist=way["verified"])
    tables = list(resolve_model(args.model).glob(TABLE))
    if not tables:
        raise SystemExit(f"{args.model} has no shortlist")
    sources, references = (list(islice(lines_of(path), args.sentences)) for path in (args.src, args.tgt))
    table = Shortlist.load(tables[0], translators["list"].tokenizer.size)
    sizes = table.members(translators["list"].encode(sources)).sum(axis=1)
    print(f"{len(sources):,} sentences, lists of {sizes.mean():.0f} pieces (largest {sizes.max():,})")
    for k in args.segments:
        wanted = int(k) if k.isdecimal() else "auto"
        texts = {  # a list is verified for a sentence alone
            name: [one.text for one in each.translate(sources, segments=wanted, scores=False, batch_size=1)]
            for name, each in translators.items()
        }
        for name, written in texts.items():
            same = sum(one == other for one, other in zip(written, texts["without"], strict=True))
            bleu = corpus_bleu(written, references).value
            print(f"K = {k} {name:8} {100 * same / len(sources):.2f} % the same as without, BLEU {bleu:.2f}")
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
    """Time engines whose weights are random."""
    with tempfile.TemporaryDirectory() as folder:
        time_untrained(args, {one: engine_of(Path(folder), one, args.vocabulary, args.list) for one in args.untrained})


def time_untrained(args: argparse.Namespace, engines: dict[str, NativeEngine]) -> None:
    """Print a line for each K, shape and way."""
    source = np.random.default_rng(1).integers(5, args.vocabulary, 25).tolist()
    for batch in args.batches:
        for k in map(int, args.segments):
            cases: dict[str, Callable[[], object]] = {
                f"{shape:14} {name:8}": partial(
                    engine.decode, [source] * batch, np.full(batch, k), Options(lives=LIVES[k], scores=False, **way)
                )
                for shape, engine in engines.items()
                for name, way in WAYS.items()
            }
            for name, (clock, processor) in fastest(cases, args.rounds).items():
                print(f"batch {batch:2} K = {k:2} {name} {clock:7.2f} ms, {processor:7.2f} of the processor")


def engine_of(folder: Path, shape: str, vocabulary: int, size: int) -> NativeEngine:
    """Export a model of a shape such as 6+2:256/1536, whose lists have so many pieces."""
    encoder, decoder, d_model, d_hidden = (int(number) for number in re.split("[+:/]", shape))
    config = ModelConfig(
        d_model=d_model, d_hidden=d_hidden, n_heads=8, encoder_layers=encoder, decoder_layers=decoder,
        vocab_size=vocabulary,
    )  # fmt: skip
    common = np.zeros((1, vocabulary), dtype=np.bool_)
    common[0, [EOS, DEL, *np.random.default_rng(1).integers(5, vocabulary, size)]] = True
    weights, out = random_weights(config), folder / shape.replace("/", "-")
    write_int8(out, quantised(weights, config, made_up_ranges(weights)), config)
    Shortlist(np.full((vocabulary, 1), EOS), np.empty(0, dtype=np.int64), common).save(out / TABLE)
    return NativeEngine(out, config)


def main() -> None:
    """Read what is wanted and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--src", type=Path)
    parser.add_argument("--tgt", type=Path)
    parser.add_argument("--to")
    parser.add_argument("--compute-type", default="default")
    parser.add_argument("--segments", nargs="+", default=["10"])
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--timed", type=int, default=100, help="sentences that are timed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--untrained", nargs="+", help="shapes")
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
