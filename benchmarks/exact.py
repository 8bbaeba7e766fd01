"""Time `exact` beside what it drafts with and what it writes: one sentence at a time, by the GPU engine.

    python benchmarks/exact.py sentences.en --to de [--device cuda] [--model FOLDER] [--out exact.json]

The weights are those of an exported int8 model (default: the built-in one), multiplied out: a trained model of d 512
that any engine of torch weights takes. Every way translates every sentence by itself, in turn, round by round: text to
text, and from ids to ids (the engine alone). Told are the means over sentences of the fastest and of the median round,
calls of the model, and how many sentences have the words of K = 1. Then come drafts of other K, and where the time of
an exact sentence goes: each graph on the device by itself, and what is left, which is the host's and that of copies.

`--built-in` also compares the translations with those of the exported model on the CPU, which rounds to 8 bits.
"""

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch

import recoversat
from recoversat import Translator
from recoversat.decoding.segmentwise import Decoded
from recoversat.engines.cuda.causal import CausalSession
from recoversat.engines.cuda.engine import GraphEngine
from recoversat.engines.cuda.session import Session
from recoversat.engines.engine import Options
from recoversat.files.model_folder import read_config
from recoversat.inference.exact import decode_exactly
from recoversat.model.device import torch_device
from recoversat.model.exported import exported_weights
from recoversat.model.transformer import Transformer
from recoversat.model.weights import fill
from recoversat.text.tokenizer import load_tokenizer

BUILT_IN = Path(recoversat.__file__).parent / "assets" / "ende"
FINER = 2  # times the segments of "auto", as `exact` drafts
TOLERANCE, DRAFTS, ENCODINGS = 0.5, (6, 10), 50
BUCKETS = 1000  # that no graph be captured again while others are timed
ONE, EXACT = "K = 1", "exact"
Ids = list[int]


def translator_of(folder: Path, device: str, target: str) -> Translator:
    """Return a translator of the multiplied out model: in fp16 on a GPU, in fp32 on a CPU."""
    config, _ = read_config(folder)
    model, where = Transformer(config.model).eval(), torch_device(device)
    fill(model, exported_weights(folder), folder)
    dtype = torch.float16 if where.type == "cuda" else torch.float32
    engine = GraphEngine(model, where, dtype, max_buckets=BUCKETS)
    return Translator.of(engine, load_tokenizer(folder), config).into(target)


class Written(NamedTuple):
    """What came of one sentence."""

    words: object  # text or ids
    calls: int


class Way(NamedTuple):
    """A way to translate: a text, and ids."""

    text: Callable[[str], Written] | None
    ids: Callable[[Ids], Written]


def ways(translator: Translator, drafts: tuple[int, ...]) -> dict[str, Way]:
    """Return all ways by name; drafts of a given K are timed from ids only."""
    tolerant = copy(translator)
    tolerant.set_decoding(exact=True, tolerance=TOLERANCE)
    engine = translator.engine

    def text(by: Translator, **how: Any) -> Callable[[str], Written]:
        def translate(line: str) -> Written:
            one = by.translate([line], **how)[0]
            return Written(one.text, one.steps)

        return translate

    def plain(k: int | None) -> Callable[[Ids], Written]:
        return lambda ids: _ids(engine.decode([ids], _count(translator, ids, k), Options(scores=False)))

    def verified(k: int | None, tolerance: float = 0.0) -> Callable[[Ids], Written]:
        how = Options(scores=False, tolerance=tolerance)
        return lambda ids: _ids(decode_exactly(engine, [ids], _count(translator, ids, k, FINER), how))

    every = {
        ONE: Way(text(translator, segments=1), plain(1)),
        "K = 10": Way(text(translator, segments=10), plain(10)),
        "K by length": Way(text(translator, segments="auto"), plain(None)),
        EXACT: Way(text(translator, quality="exact"), verified(None)),
        f"tolerance {TOLERANCE}": Way(text(tolerant), verified(None, TOLERANCE)),
    }
    return every | {f"exact, draft of {k}": Way(None, verified(k)) for k in drafts}


def _ids(written: list[Decoded]) -> Written:
    return Written(written[0].segments, written[0].steps)


def _count(translator: Translator, ids: Ids, k: int | None, finer: int = 1) -> Any:
    return translator.segment_counts("auto" if k is None else k, [finer * len(ids)])


class Timed(NamedTuple):
    """What a way took and wrote, by sentence."""

    seconds: list[list[float]]  # (rounds, sentences)
    written: list[Written]

    def row(self, name: str, kind: str, one: "Timed") -> dict[str, Any]:
        """Sum up beside K = 1."""
        fastest, median = ([1e3 * pick(own) for own in zip(*self.seconds, strict=True)] for pick in (min, _median))
        same = [mine.words == own.words for mine, own in zip(self.written, one.written, strict=True)]
        return {
            "way": name, "kind": kind, "fastest_ms": statistics.mean(fastest), "median_ms": statistics.mean(median),
            "calls": statistics.mean(mine.calls for mine in self.written), "as_one": sum(same), "of": len(same),
        }  # fmt: skip


def _median(numbers: Sequence[float]) -> float:
    return statistics.median(numbers)


def time_all(
    calls: dict[str, Callable[[Any], Written]], inputs: list[Any], rounds: int, until: float
) -> dict[str, Timed]:
    """Let every way write everything, twice (kernels are compiled, graphs captured), and then time all in turn."""
    found = {}
    for name, call in calls.items():
        begun = time.perf_counter()
        written = [call(one) for one in inputs]
        again = [call(one).words for one in inputs]
        changed = sum(one.words != other for one, other in zip(written, again, strict=True))
        say(f"  {name}: warm after {time.perf_counter() - begun:.1f} s", f"CHANGES {changed}" if changed else "")
        found[name] = Timed([], written)
    for number in range(rounds):
        if number and time.perf_counter() > until:
            break
        for name, call in calls.items():
            found[name].seconds.append([_seconds(call, one) for one in inputs])
    return found


def _seconds(call: Callable[[Any], Written], one: Any) -> float:
    begun = time.perf_counter()
    call(one)
    return time.perf_counter() - begun


@contextmanager
def stopwatch(device: torch.device) -> Iterator[dict[str, list[float]]]:
    """Note how long the device takes for each graph, in milliseconds by name; they are there in the end."""
    found: dict[str, list[float]] = defaultdict(list)
    events: list[tuple[str, Any, Any]] = []
    replay = Session._replay

    def timed(session: Session, run: Any, encode: bool, *sizes: int) -> None:
        causal = isinstance(session, CausalSession)
        what = f"pass of {sizes[0]} rows" if causal else f"draft, {sizes[0]} steps"
        name = f"{'encoder and ' if encode else ''}{what}, {sizes[1]} places"
        if device.type != "cuda":
            begun = time.perf_counter()
            replay(session, run, encode, *sizes)
            found[name].append(1e3 * (time.perf_counter() - begun))
            return
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        replay(session, run, encode, *sizes)
        after.record()
        events.append((name, before, after))

    with patch.object(Session, "_replay", timed):
        yield found
    if events:
        torch.cuda.synchronize(device)
    for name, before, after in events:
        found[name].append(before.elapsed_time(after))


def tell_parts(engine: GraphEngine, call: Callable[[Ids], Written], ids: list[Ids]) -> list[dict[str, Any]]:
    """Print where the time of a way goes, a sentence on average."""
    waits: list[float] = []
    compare = CausalSession.compare

    def timed(*args: Any) -> Any:
        begun = time.perf_counter()
        found = compare(*args)
        waits.append(1e3 * (time.perf_counter() - begun))
        return found

    with patch.object(CausalSession, "compare", timed), stopwatch(engine._device) as parts:
        whole = 1e3 * sum(_seconds(call, one) for one in ids) / len(ids)
    rows = [
        {"part": name, "calls": len(own) / len(ids), "us": 1e3 * statistics.median(own), "ms": sum(own) / len(ids)}
        for name, own in sorted(parts.items(), key=lambda item: -sum(item[1]))
    ]
    for row in rows:
        say(f"  {row['part']:45} {row['calls']:5.2f} a sentence  {row['us']:7.1f} us each  {row['ms']:6.3f} ms")
    on_device = sum(sum(own) for own in parts.values()) / len(ids)
    say(f"  {'all graphs':45} {on_device:44.3f} ms")
    say(f"  {'all (with events, so slower)':45} {whole:44.3f} ms")
    if waits:
        each, all_of_them = 1e3 * statistics.median(waits), sum(waits) / len(ids)
        say(f"  passes with their copies, by the host's clock: {each:.1f} us each, {all_of_them:.3f} ms a sentence")
    return [*rows, {"part": "whole", "calls": 1, "us": 1e3 * whole, "ms": whole}]


def tell_encoder(engine: GraphEngine) -> None:
    """Print what the encoder takes by itself in each session of one sentence that has steps."""
    told = set()
    for (kind, bucket), session in engine._sessions.items():
        if bucket.batch > 1 or bucket.source in told:
            continue
        told.add(bucket.source)
        with torch.inference_mode():
            session._encoded.of = ()  # another source than anyone thinks
            run = session._capturer.capture(session._run_encoder, session._arena.memory)
            times = [_on_device(engine._device, run) for _ in range(ENCODINGS)]
        say(f"  encoder of {bucket.source} places alone: {1e3 * statistics.median(times):.1f} us ({kind.__name__})")


def _on_device(device: torch.device, run: Callable[[], None]) -> float:
    """Return how many milliseconds something takes on the device."""
    if device.type != "cuda":
        begun = time.perf_counter()
        run()
        return 1e3 * (time.perf_counter() - begun)
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    run()
    after.record()
    after.synchronize()
    return float(before.elapsed_time(after))


def tell_kernels(call: Callable[[Ids], Written], ids: list[Ids]) -> None:
    """Print the kernels that take the most time."""
    activities = [torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profile:
        for one in ids:
            call(one)
        torch.cuda.synchronize()
    say(profile.key_averages().table(sort_by="self_cuda_time_total", row_limit=25, max_name_column_width=60))


def compare_with_export(translator: Translator, folder: Path, texts: list[str]) -> None:
    """Count the sentences that the exported model translates alike."""
    exported = Translator(folder, target=translator.target, device="cpu")
    for how in ({"segments": 1}, {"segments": "auto"}):
        mine, theirs = ([one.text for one in by.translate(texts, **how)] for by in (translator, exported))
        same = sum(a == b for a, b in zip(mine, theirs, strict=True))
        say(f"as the exported model, {how}: {same} of {len(texts)}")
        for text, a, b in zip(texts, mine, theirs, strict=True):
            if a != b:
                say(f"    {text}\n      {a}\n      {b}")


def say(*words: object) -> None:
    print(*words, flush=True)


def tell(rows: list[dict[str, Any]]) -> None:
    """Print what was timed beside K = 1."""
    ones = {row["kind"]: row for row in rows if row["way"] == ONE}
    for row in rows:
        one, times = ones[row["kind"]], ""
        for column in ("fastest_ms", "median_ms"):
            times += f"{row[column]:8.3f} ms ({one[column] / row[column]:.2f} x)"
        say(f"{row['kind']:5} {row['way']:18}{times}  {row['calls']:5.1f} calls  as K = 1: {row['as_one']}/{row['of']}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--to", default="de")
    parser.add_argument("--model", type=Path, default=BUILT_IN)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--count", type=int, default=50, help="sentences, evenly from the file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=45, help="after which no round begins")
    parser.add_argument("--drafts", type=int, nargs="*", default=DRAFTS)
    parser.add_argument("--kernels", action="store_true", help="also list kernels")
    parser.add_argument("--built-in", action="store_true", help="also compare with the exported model")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    args, begun = parsed(), time.perf_counter()
    lines = [line for line in args.sentences.read_text().splitlines() if line.strip()]
    texts = lines[:: max(1, len(lines) // args.count)][: args.count]
    translator = translator_of(args.model, args.device, args.to)
    engine = translator.engine
    assert isinstance(engine, GraphEngine)
    say(f"{engine.description}; loaded in {time.perf_counter() - begun:.1f} s")
    if args.built_in:
        compare_with_export(translator, args.model, texts)
    ids = [source.ids for source in translator.read(texts)]
    say(f"{len(texts)} sentences of {statistics.mean(map(len, ids)):.1f} tokens")
    every, until = ways(translator, tuple(args.drafts)), begun + args.seconds
    from_ids = {name: way.ids for name, way in every.items()}
    from_text = {name: way.text for name, way in every.items() if way.text}
    rows = []
    for kind, calls, inputs in (("ids", from_ids, ids), ("text", from_text, texts)):
        timed = time_all(calls, inputs, args.rounds, until)
        rows += [own.row(name, kind, timed[ONE]) for name, own in timed.items()]
        tell(rows[-len(timed) :])
    say(
        f"layers of one row: {type(engine._model.layers(1, 1, 32)).__name__}, after {time.perf_counter() - begun:.1f} s"
    )
    report: dict[str, Any] = {"engine": engine.description, "rows": rows, "parts": {}}
    for name in (ONE, EXACT):
        _write(args.out, report)  # whatever comes of the rest
        say(f"where the time of {name} goes:")
        report["parts"][name] = tell_parts(engine, from_ids[name], ids)
    _write(args.out, report)
    tell_encoder(engine)
    if args.kernels:
        tell_kernels(from_ids[EXACT], ids[:10])


def _write(out: Path | None, report: dict[str, Any]) -> None:
    if out:
        out.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
