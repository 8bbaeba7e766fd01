"""Check the graph engine against the reference engine on this machine's GPU, then time both.

    python benchmarks/gpu_check.py --quick --out gpu.json
    python benchmarks/gpu_check.py --model runs/student --model runs/teacher --src test.en --out gpu.json

Checks: in fp32 the tokens must be those of the reference (all but 2 in 100 sentences, whose best tokens may be too
close to tell apart); in fp16 their agreement is reported. Sources are random for untrained models, else from --src.

Timings: an untrained model (d 512, ffn 512, 6 + 6 layers, 32k vocabulary) that never ends on its own takes a fixed
number of steps for sources of 25 tokens: K = 10 takes 6, K = 1 and beam 4 take 28. Medians of interleaved rounds, in
milliseconds a batch, from ids to ids: copies, encoder and results included. "steps" lines tell what a step costs.
"""

import argparse
import copy
import faulthandler
import itertools
import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recoversat.config import ModelConfig
from recoversat.decoding.segmentwise import Decoded
from recoversat.engines.cuda.engine import GraphEngine
from recoversat.engines.cuda.one_step import GraphOneStepEngine
from recoversat.engines.engine import Engine, Options
from recoversat.engines.torch.engine import TorchEngine
from recoversat.engines.torch.nat import TorchNatEngine
from recoversat.inference.exact import decode_exactly
from recoversat.model.device import torch_device
from recoversat.model.nat import NatTransformer
from recoversat.model.transformer import Transformer
from recoversat.vocab import DEL, EOS, N_SPECIAL

SOURCE_LENGTH, STEPS, GREEDY_STEPS = 25, 6, 28
SIZES = {
    "d512": ModelConfig(d_model=512, d_hidden=512, n_heads=8, encoder_layers=6, decoder_layers=6, vocab_size=32_000),
    "d278": ModelConfig(d_model=278, d_hidden=507, n_heads=2, encoder_layers=5, decoder_layers=5, vocab_size=8_001),
    "tiny": ModelConfig(d_model=38, d_hidden=64, n_heads=2, encoder_layers=1, decoder_layers=2, vocab_size=300),
}
_KINDS = (("fp32", torch.float32, False), ("fp32", torch.float32, True), ("fp16", torch.float16, True))
_SAME_SCORE = 0.01  # log-probabilities of untrained models are in the hundreds
Sources = list[list[int]]
Row = dict[str, Any]


def say(*words: object) -> None:
    """Print at once, so that a run that is cut short has shown what it had."""
    print(*words, flush=True)


def lively_model(config: ModelConfig, seed: int = 1, ending: float = 8) -> Transformer:
    """Make an untrained model whose every weight has a say, and which ends its segments after some tokens."""
    torch.manual_seed(seed)
    model = Transformer(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 4 / config.d_model**0.5)
            else:
                parameter.normal_(1 if "norm.weight" in name else 0, 0.1)
        model.embedding.weight.normal_(0, config.d_model**-0.5)
        model.decoder.norm.weight.mul_(4)
        model.decoder.norm.bias.fill_(1)
        model.embedding.weight[[EOS, DEL]] += ending / config.d_model
    return model


def endless_model(config: ModelConfig) -> Transformer:
    """Make an untrained model that never ends a segment."""
    torch.manual_seed(1)
    model = Transformer(config)
    with torch.no_grad():
        model.embedding.weight[[EOS, DEL]] = 0
    return model


def random_sources(count: int, vocab: int, longest: int = 30, shortest: int = 1) -> Sources:
    """Draw sentences of mixed lengths."""
    rng = np.random.default_rng(count)
    lengths = rng.integers(shortest, longest + 1, count)
    return [rng.integers(N_SPECIAL, vocab, length).tolist() for length in lengths]


# --- checks -------------------------------------------------------------------------------------------------------


def tokens_of(engine: Engine, sources: Sources, k: int, beam: int, batch: int) -> list[Any]:
    """Decode a batch at a time."""
    results: list[Any] = []
    for at in range(0, len(sources), batch):
        some = sources[at : at + batch]
        if beam > 1:
            results += [one.best.tokens for one in engine.search(some, beam)]
        else:
            results += [one.segments for one in engine.decode(some, np.full(len(some), k))]
    return results


def check_model(
    name: str, make: Callable[[], Transformer], sources: Sources, ways: Sequence[tuple[int, int]], device: torch.device
) -> list[Row]:
    """Compare engines in fp32 and fp16; `ways` are pairs of K and beam."""
    reference = TorchEngine(make(), device)
    expected = {way: tokens_of(reference, sources, *way, batch=16) for way in ways}
    pairs = [(source, [token for token in source if token >= N_SPECIAL]) for source in sources]
    likely = reference.score(pairs)
    del reference
    rows: list[Row] = []
    for precision, dtype, fused in _KINDS if device.type == "cuda" else _KINDS[:1]:
        try:
            engine = GraphEngine(make(), device, dtype, fused=fused)
            for (k, beam), (batch, count) in itertools.product(ways, {1: 4, 13: len(sources)}.items()):
                got = tokens_of(engine, sources[:count], k, beam, batch)
                same = sum(one == other for one, other in zip(expected[k, beam], got, strict=False))
                ok = precision != "fp32" or same >= 0.98 * len(got) - 1
                row = {"model": name, "precision": precision, "fused": fused, "k": k, "beam": beam, "batch": batch}
                rows.append(row | {"same": same, "of": len(got), "ok": ok})
                ops = "fused" if fused else "plain"
                say(f"  {name} {precision} {ops} K={k} beam={beam} batch={batch}: {same}/{len(got)} the same")
            rows += _check_passes(
                engine, sources, pairs, likely, {"model": name, "precision": precision, "fused": fused}
            )
        except Exception:
            say(f"  {name} {precision} fused={fused} failed:\n{traceback.format_exc()}")
            rows.append({"model": name, "precision": precision, "fused": fused, "ok": False})
    return rows


def check_one_step(config: ModelConfig, sources: Sources, device: torch.device) -> list[Row]:
    """Compare NAT, CMLM and CTC as graphs with the same in eager torch, in fp32, and time both at batch 1 in fp16."""
    rows: list[Row] = []
    for kind in ("nat", "cmlm", "ctc"):
        model = lively_nat(config.model_copy(update={"kind": kind}))
        eager, graphs = TorchNatEngine(model, device), GraphOneStepEngine(copy.deepcopy(model), device, torch.float32)
        for batch, count in {1: 4, 13: len(sources)}.items():
            expected, got = (tokens_of(engine, sources[:count], 1, 1, batch) for engine in (eager, graphs))
            same = sum(one == other for one, other in zip(expected, got, strict=True))
            row = {"model": kind, "precision": "fp32", "batch": batch, "same": same, "of": count}
            rows.append(row | {"ok": same >= 0.98 * count - 1})
            say(f"  {kind} fp32 batch={batch}: {same}/{count} the same")
        half = GraphOneStepEngine(model, device, torch.float16 if device.type == "cuda" else torch.float32)
        one = [random_sources(1, config.vocab_size or 0, SOURCE_LENGTH, SOURCE_LENGTH), np.ones(1, dtype=np.int64)]
        half.decode(*one)
        seconds = sorted(_seconds(lambda half=half, one=one: half.decode(*one)) for _ in range(20))
        say(f"  {kind} as graphs, batch 1, {SOURCE_LENGTH} tokens: {1000 * seconds[10]:.2f} ms")
    return rows


def lively_nat(config: ModelConfig) -> NatTransformer:
    """Make an untrained model whose weights have a say and whose lengths stay near the source's."""
    torch.manual_seed(1)
    model = NatTransformer(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 2 / config.d_model**0.5)
        if model.n_length_classes:
            model.length.weight.zero_()
            model.length.bias[model.n_length_classes // 2] = 5
    return model


def _check_passes(
    engine: GraphEngine, sources: Sources, pairs: list[tuple[list[int], list[int]]], likely: list[Decoded], about: Row
) -> list[Row]:
    """Compare scores with the reference's in fp32, and what is drafted and verified with the engine's own K = 1."""
    off = [
        max(abs(a - b) for a, b in zip(one.log_probs[0], other.log_probs[0], strict=True))
        for one, other in zip(likely, engine.score(pairs), strict=True)
    ]
    close = sum(difference < _SAME_SCORE for difference in off)
    rows = [
        about
        | {"way": "score", "same": close, "of": len(pairs), "ok": about["precision"] != "fp32" or close == len(pairs)}
    ]
    some = sources[:16]
    drafted = [decode_exactly(engine, [source], np.array([5]), Options())[0].segments for source in some]
    same = sum(one == other for one, other in zip(drafted, tokens_of(engine, some, 1, 1, 1), strict=True))
    rows.append(about | {"way": "exact", "same": same, "of": len(some), "ok": same >= len(some) - 1})
    say(f"  scores {close}/{len(pairs)} within {_SAME_SCORE}, exact {same}/{len(some)} the same")
    return rows


def real_model(folder: Path, lines: list[str], device: torch.device) -> list[Row]:
    """Check a model folder on lines of text, with its own K and as beam search where it has one segment."""
    from recoversat.model.weights import load_model
    from recoversat.translator import Translator

    translator = Translator(folder, device="cpu", compute_type="float32")
    sources = [ids for ids in translator.tokenizer.encode(lines, translator.prefix) if ids]
    choices = translator.config.train.segment_choices
    ways = [(1, 1), (1, 4)] if choices == [1] else [(max(choices), 1), (min(choices), 1)]

    def make() -> Transformer:
        model, _ = load_model(folder)
        assert isinstance(model, Transformer)
        return model

    return check_model(folder.name, make, sources, list(dict.fromkeys(ways)), device)


# --- timings ------------------------------------------------------------------------------------------------------


def contestants(
    graphs: dict[str, GraphEngine], eager: TorchEngine, batch: int, vocab: int
) -> dict[str, Callable[[], Any]]:
    """Return what is timed, by name."""
    sources = random_sources(batch, vocab, SOURCE_LENGTH, SOURCE_LENGTH)
    many, one = np.full(batch, 10), np.ones(batch, dtype=np.int64)
    few, long, engines = _steps(batch, STEPS), _steps(batch, GREEDY_STEPS), {**graphs, "eager": eager}
    timed: dict[str, Callable[[], Any]] = {}
    for name, engine in engines.items():
        timed[f"{name} K=10 x {STEPS}"] = lambda engine=engine: engine.decode(sources, many, few)
        timed[f"{name} K=1 x {GREEDY_STEPS}"] = lambda engine=engine: engine.decode(sources, one, long)
        timed[f"{name} beam 4 x {GREEDY_STEPS}"] = lambda engine=engine: engine.search(sources, 4, long)
    first = next(iter(graphs.values()))
    pairs = list(zip(sources, random_sources(batch, vocab, SOURCE_LENGTH, SOURCE_LENGTH), strict=True))
    timed["graphs score"] = lambda: first.score(pairs)
    timed["graphs score 3 each"] = lambda: first.score([pair for pair in pairs for _ in range(3)])
    if batch == 1:
        timed["graphs verify x 1"] = lambda: _verify(first, pairs[0], 1)
        timed["graphs verify x 5"] = lambda: _verify(first, pairs[0], 5)
    timed["steps: K=10 x 1"] = lambda: first.decode(sources, many, _steps(batch, 1))
    timed["steps: K=1 x 4"] = lambda: first.decode(sources, one, _steps(batch, 4))
    return timed


def _verify(engine: GraphEngine, pair: tuple[list[int], list[int]], passes: int) -> None:
    """Verify a draft again and again, as if it were wrong after a few tokens."""
    verifier = engine.verifier(pair[0], GREEDY_STEPS)
    for _ in range(passes):
        verifier.verify(pair[1], scores=True)
        verifier.forget(3)


def _steps(batch: int, count: int) -> Options:
    return Options(limits=np.full(batch, count))


def time_batch(timed: dict[str, Callable[[], Any]], rounds: int, batch: int, until: float) -> list[Row]:
    """Time all contestants in turn, round by round; the first call of each (capture, warm-up) is reported apart."""
    times: dict[str, list[float]] = {}
    first: dict[str, float] = {}
    for name, call in timed.items():
        try:
            first[name] = _seconds(call)
            _seconds(call)
            times[name] = []
        except Exception:
            say(f"  {name} failed:\n{traceback.format_exc()}")
    for number in range(rounds):
        for name, own in times.items():
            if not name.startswith("eager") or number < 5:
                own += [_seconds(timed[name]) for _ in range(1 if name.startswith("eager") else 3)]
        if number >= 2 and time.monotonic() > until:
            break
    return [_timing(batch, name, own, first[name]) for name, own in times.items()]


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()  # ends with ids on the host
    return time.perf_counter() - start


def _timing(batch: int, name: str, seconds: list[float], first: float) -> Row:
    middle = statistics.median(seconds)
    row = {"batch": batch, "name": name, "ms": middle * 1e3, "best_ms": min(seconds) * 1e3}
    row |= {"sentences_per_s": batch / middle, "first_call_s": first}
    say(
        f"  batch {batch:4d}  {name:28s} {row['ms']:9.3f} ms (best {row['best_ms']:.3f}) "
        f"{row['sentences_per_s']:10.0f} sentences/s; first call {first:.2f} s"
    )
    return row


def say_ratios(rows: list[Row]) -> None:
    """Print how K = 10 compares with one segment on the same engine."""
    ms = {(row["batch"], row["name"]): row["ms"] for row in rows}
    for (batch, name), value in ms.items():
        if name.endswith(f"K=10 x {STEPS}"):
            engine = name.removesuffix(f" K=10 x {STEPS}")
            greedy, beam = (ms.get((batch, f"{engine} {way} x {GREEDY_STEPS}")) for way in ("K=1", "beam 4"))
            if greedy and beam:
                say(f"  batch {batch:4d}  {engine:16s} K=10 is {greedy / value:.2f} x K=1, {beam / value:.2f} x beam 4")


def profile(engine: GraphEngine, vocab: int) -> None:
    """Print which kernels a sentence spends its time in."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    sources = random_sources(1, vocab, SOURCE_LENGTH, SOURCE_LENGTH)
    with profiler(activities=[ProfilerActivity.CUDA]) as watched:
        engine.decode(sources, np.array([10]), _steps(1, STEPS))
    say(watched.key_averages().table(sort_by="self_cuda_time_total", row_limit=30, max_name_column_width=90))


# --- all of it ----------------------------------------------------------------------------------------------------


def section(report: dict[str, Any], title: str, work: Callable[[], list[Row]]) -> list[Row]:
    """Run one part; when it fails the others still run."""
    say(f"== {title}")
    start = time.monotonic()
    try:
        rows = work()
    except Exception:
        report["failures"].append({"section": title, "error": traceback.format_exc()})
        say(traceback.format_exc())
        rows = []
    say(f"   ({time.monotonic() - start:.1f} s)")
    return rows


def run_checks(args: argparse.Namespace, device: torch.device, report: dict[str, Any]) -> None:
    """Compare engines on untrained models and on those that were named."""
    names = ["tiny"] if device.type == "cpu" else ["d278", "d512"]
    for name in names:
        config = SIZES[name]
        sources = random_sources(args.sentences, config.vocab_size or 0)
        report["checks"] += section(
            report,
            f"same tokens: untrained {name}",
            lambda config=config, name=name, sources=sources: check_model(
                name, lambda: lively_model(config), sources, [(10, 1), (1, 1), (1, 4)], device
            ),
        )
        report["checks"] += section(
            report,
            f"same tokens: one step, untrained {name}",
            lambda config=config, sources=sources: check_one_step(config, sources, device),
        )
    lines = args.src.read_text(encoding="utf-8").splitlines()[: args.sentences] if args.src else []
    write(args.out, report)
    for folder in args.model:
        report["checks"] += section(
            report, f"same tokens: {folder}", lambda folder=folder: real_model(folder, lines, device)
        )


def run_timings(args: argparse.Namespace, device: torch.device, report: dict[str, Any], until: float) -> None:
    """Time graphs and eager engine at every batch size."""
    on_gpu = device.type == "cuda"
    config = SIZES["d512" if on_gpu else "tiny"]
    dtype = torch.float16 if on_gpu else torch.float32
    eager = TorchEngine(endless_model(config), device, dtype)
    graphs = {"graphs": GraphEngine(endless_model(config), device, dtype)}
    if on_gpu:
        graphs["plain graphs"] = GraphEngine(endless_model(config), device, dtype, fused=False)
    say(graphs["graphs"].description)
    rounds = 5 if args.quick or not on_gpu else 20
    for batch in args.batches or ([1, 8, 64, 256] if on_gpu else [1, 3]):
        timed = contestants(graphs, eager, batch, config.vocab_size or 0)
        rows = section(
            report, f"time of batch {batch}", lambda timed=timed, batch=batch: time_batch(timed, rounds, batch, until)
        )
        say_ratios(rows)
        report["timings"] += rows
        write(args.out, report)
    if args.profile:
        section(report, "kernels", lambda: profile(graphs["graphs"], config.vocab_size or 0) or [])


def write(out: Path | None, report: dict[str, Any]) -> None:
    """Write what there is so far."""
    if out:
        out.write_text(json.dumps(report, indent=1), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", type=Path, action="append", default=[], help="a model folder; may be repeated")
    parser.add_argument("--src", type=Path, help="text that the models translate")
    parser.add_argument("--sentences", type=int, default=0, help="sentences to check (default 200, quick 48)")
    parser.add_argument("--batches", type=int, nargs="*", help="batch sizes to time")
    parser.add_argument("--only", choices=["checks", "timings"])
    parser.add_argument("--quick", action="store_true", help="under 90 seconds on a GPU")
    parser.add_argument("--profile", action="store_true", help="also print the kernels of one sentence")
    parser.add_argument("--seconds", type=float, help="end after this time, come what may (default 600, quick 85)")
    parser.add_argument("--out", type=Path, help="write results as JSON")
    args = parser.parse_args()
    args.sentences = args.sentences or (48 if args.quick else 200)
    seconds = args.seconds or (85 if args.quick else 600)
    start = time.monotonic()
    faulthandler.dump_traceback_later(seconds, exit=True)
    device = torch_device(args.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    report: dict[str, Any] = {"device": name, "torch": torch.__version__, "source_length": SOURCE_LENGTH}
    report |= {"failures": [], "checks": [], "timings": []}
    say(f"{name}, torch {torch.__version__}; fixed steps: K=10 takes {STEPS}, K=1 and beam take {GREEDY_STEPS}")
    if args.only != "checks":
        run_timings(args, device, report, until=start + 0.6 * seconds)
    write(args.out, report)
    if args.only != "timings":
        run_checks(args, device, report)
    write(args.out, report)
    wrong = [row for row in report["checks"] if not row["ok"]]
    for row in wrong:
        say("NOT THE SAME:", row)
    say(f"{len(report['checks'])} comparisons, {len(wrong)} wrong; {len(report['failures'])} sections failed")
    return 1 if wrong or report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
