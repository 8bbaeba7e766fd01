"""What each rule for texts does to test sets: how many lines it changes, and BLEU before and after.

    python benchmarks/rules.py --test talks=tests/tst2014 --test prose=ende200k/test --lines 300 --out results/rules

Each `--test NAME=PREFIX` is a pair of files PREFIX.en and PREFIX.de, translated in both directions by the built-in
model, first without any of the rules, then with each by itself and with all. In `--out`, `changed.tsv` has every line
that changed, to be read: test set, direction, rule, source, reference, before, after.
"""

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sacrebleu

from recoversat import Translator
from recoversat.decoding.segmentwise import Decoded

RULES = ["keep_spacing", "split_sentences", "keep_protected", "check_numbers", "localize_numbers", "one_quote_style"]


class Remembering:
    """An engine that decodes the same source with the same K once: most lines are none of a rule's business."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.known = engine, dict[tuple[tuple[int, ...], int], Decoded]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def decode(self, sources: Sequence[Sequence[int]], n_segments: Any, options: Any) -> list[Decoded]:
        """Decode what is new."""
        if options.forced or options.top_tokens:
            return list(self.engine.decode(sources, n_segments, options))
        keys = [(tuple(source), int(k)) for source, k in zip(sources, n_segments, strict=True)]
        new = [i for i, key in enumerate(keys) if key not in self.known]
        if new:
            written = self.engine.decode([sources[i] for i in new], n_segments[new], options)
            self.known.update((keys[i], decoded) for i, decoded in zip(new, written, strict=True))
        return [self.known[key] for key in keys]


def main() -> None:
    """Translate, compare, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--test", action="append", default=[], metavar="NAME=PREFIX")
    parser.add_argument("--together", metavar="PREFIX", help="a test set of sentences, put together by two")
    parser.add_argument("--lines", type=int, default=300, help="of each test set, evenly spread")
    parser.add_argument("--segments", default="auto")
    parser.add_argument("--rule", action="append", help=f"one of {', '.join(RULES)}; all, if none is named")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    rules: list[str] = args.rule or RULES
    segments = int(args.segments) if args.segments.isdigit() else args.segments
    table = [["test set", "rule", "lines changed", "BLEU", "with it", "of these lines", "with it"], ["---"] * 7]
    changed: list[list[str]] = []
    together: list[list[str]] = []
    for source, target in (("en", "de"), ("de", "en")):
        translator = Translator(source=source, target=target, intra_threads=1)
        translator.engine = Remembering(translator.engine)  # type: ignore[assignment]
        if args.together:
            together.append(_together(translator, _some(Path(f"{args.together}.{source}"), 2000)))
            print(" -> ".join(together[-1]), flush=True)
        for name, prefix in (test.split("=", 1) for test in args.test):
            texts, references = (_some(Path(f"{prefix}.{code}"), args.lines) for code in (source, target))
            written = {}
            for rule in ["none", *rules, "all"]:
                translator.set_decoding(**{one: one == rule or (rule == "all" and one in rules) for one in RULES})
                written[rule] = [one.text for one in translator.translate(texts, segments=segments)]
                if rule == "none":
                    continue
                differ = [i for i, text in enumerate(written[rule]) if text != written["none"][i]]
                pair = written["none"], written[rule]
                table.append([f"{name} {source}-{target}", rule, f"{len(differ)} of {len(texts)}"])
                table[-1] += _bleu(pair, references, range(len(texts))) + _bleu(pair, references, differ)
                print("| " + " | ".join(table[-1]) + " |", flush=True)
                changed += [
                    [name, f"{source}-{target}", rule, texts[i], references[i], *(texts_[i] for texts_ in pair)]
                    for i in differ
                ]
    args.out.mkdir(parents=True, exist_ok=True)
    page = "".join(f"| {' | '.join(row)} |\n" for row in table) + "".join(f"\n{' -> '.join(row)}\n" for row in together)
    (args.out / "rules.md").write_text(page, encoding="utf-8")
    with (args.out / "changed.tsv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t").writerows(changed)


def _together(translator: Translator, texts: list[str]) -> list[str]:
    """Count the lines of two short sentences that come out as each does alone, without splitting and with it."""
    singles = [text for text in texts if text.endswith((".", "?", "!")) and len(text) < 60][:240]
    translator.set_decoding(**dict.fromkeys(RULES, False))
    alone = [one.text for one in translator.translate(singles)]
    lines = [" ".join(pair) for pair in zip(singles[::2], singles[1::2], strict=False)]
    expected = [" ".join(pair) for pair in zip(alone[::2], alone[1::2], strict=False)]
    row = [f"{len(lines)} lines of two sentences {translator.source}-{translator.target}: as each alone"]
    for split in (False, True):
        translator.set_decoding(split_sentences=split)
        written = [one.text for one in translator.translate(lines)]
        row.append(str(sum(text == other for text, other in zip(written, expected, strict=True))))
    return row


def _some(path: Path, count: int) -> list[str]:
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return lines[:: max(1, len(lines) // count)][:count]


def _bleu(pair: tuple[list[str], list[str]], references: list[str], which: Sequence[int]) -> list[str]:
    expected = [references[i] for i in which]
    scores = [sacrebleu.corpus_bleu([texts[i] for i in which], [expected]).score for texts in pair if which]
    return [f"{score:.2f}" for score in scores] or ["", ""]


if __name__ == "__main__":
    main()
