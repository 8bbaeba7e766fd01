"""Draw trained models of a run of `bench` with peers that were timed untrained in another, on one plot.

    python recipes/builtin/tiny_plot.py BENCH.json UNTRAINED.json --peer "Marian greedy int8 ssru" --out FOLDER

Peers have a time and no BLEU, so they are vertical lines. Both runs have to be of one kind of processor.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from recoversat.measuring.reports.plots import quality_speed_chart, write_plot


def medians(run: dict[str, Any]) -> dict[str, float]:
    """Return milliseconds of a sentence by itself, by system."""
    return {row["system"]: row["p50_ms"] for row in run["rows"] if row["batch"] == 1}


def main() -> None:
    """Write the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trained", type=Path)
    parser.add_argument("untrained", type=Path)
    parser.add_argument("--peer", action="append", required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    trained, untrained = (json.loads(path.read_text()) for path in (args.trained, args.untrained))
    kinds = [(run["machine"]["processor"], run["machine"]["instructions"]) for run in (trained, untrained)]
    if kinds[0] != kinds[1]:
        raise SystemExit(f"two kinds of processor: {kinds[0]} and {kinds[1]}")
    times = medians(trained)
    points = [{who: (times[who], bleu)} for who, bleu in trained["bleu"].items()]
    peers = {f"{who} (untrained)": medians(untrained)[who] for who in args.peer}
    write_plot(args.out, quality_speed_chart("beside-peers", "BLEU against time", points, "ms a sentence", peers))


if __name__ == "__main__":
    main()
