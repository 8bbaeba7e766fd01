"""Choose decode.segment_length of a model that has learnt several K: validation BLEU, steps and time at batch 1.

python recipes/segment_length.py MODEL SOURCES REFERENCES --to de
"""

import argparse
import time
from pathlib import Path

from recoversat.measuring.quality.metrics import corpus_bleu
from recoversat.translator import Translator, WantedSegments

TIMED = 100  # sentences


def measure(translator: Translator, sources: list[str], references: list[str], segments: WantedSegments) -> str:
    """Translate all of it for BLEU, and the first sentences one by one for the time."""
    translations = translator.translate(sources, segments=segments)
    bleu = corpus_bleu([translation.text for translation in translations], references).value
    steps = sum(translation.steps for translation in translations) / len(translations)
    began = time.perf_counter()
    for source in sources[:TIMED]:
        translator.translate([source], segments=segments, scores=False)
    milliseconds = 1000 * (time.perf_counter() - began) / len(sources[:TIMED])
    return f"BLEU {bleu:5.2f}  Step {steps:5.2f}  {milliseconds:5.1f} ms"


def main() -> None:
    """Print a line for each K and for each segment length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("sources", type=Path)
    parser.add_argument("references", type=Path)
    parser.add_argument("--to")
    args = parser.parse_args()
    sources, references = args.sources.read_text().splitlines(), args.references.read_text().splitlines()
    translator = Translator(args.model, target=args.to, intra_threads=1)
    for k in (1, 2, 5, 10):
        print(f"K = {k:<13}{measure(translator, sources, references, k)}", flush=True)
    for length in (2.5, 3.0, 4.0, 5.0, 6.0, 8.0):
        decode = translator.config.decode.model_copy(update={"segment_length": length})
        translator.config = translator.config.model_copy(update={"decode": decode})
        print(f"auto, length {length:<4}{measure(translator, sources, references, 'auto')}", flush=True)


if __name__ == "__main__":
    main()
