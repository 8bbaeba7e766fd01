"""Give a CTranslate2 folder the shortlist of an exported model of ours, so that both choose from the same pieces.

    python recipes/builtin/vmap.py EXPORTED CTRANSLATE2 OUT --to de

OUT is a copy of CTRANSLATE2 with a vocabulary map for translation into that language.
"""

import argparse
import shutil
from pathlib import Path

import numpy as np

from recoversat.engines.vocabulary import TABLE, Shortlist
from recoversat.files.model_folder import read_config
from recoversat.text.directions import prefix_of
from recoversat.text.tokenizer import Tokenizer, load_tokenizer
from recoversat.vocab import DEL, N_SPECIAL, NEVER_EMITTED


def lines(table: Shortlist, tokenizer: Tokenizer, first: list[int]) -> list[str]:
    """Return the map: what is in every list of sources that begin so, then what each piece may become, or stay."""
    pieces = np.array(tokenizer.pieces(range(tokenizer.size)))
    (common,) = np.nonzero(table.common[np.isin(table.tags, first)].any(axis=0) if first else table.common[0])
    rows = [("", common), *((pieces[i], {i, *table.likeliest[i].tolist()}) for i in range(N_SPECIAL, len(pieces)))]
    never = {*NEVER_EMITTED, DEL, *table.tags.tolist()}  # one segment does not delete itself
    return [f"{piece}\t{' '.join(pieces[sorted(set(ids) - never)])}" for piece, ids in rows]


def main() -> None:
    """Copy the folder and write the map."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("exported", "ctranslate2", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--to", required=True)
    args = parser.parse_args()
    tokenizer = load_tokenizer(args.exported)
    (first,) = tokenizer.encode([""], prefix_of(read_config(args.exported)[0].data, args.to))
    table = Shortlist.load(args.exported / TABLE, tokenizer.size)
    part = args.out.with_name(args.out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(args.ctranslate2, part)
    (part / "vmap.txt").write_text("\n".join(lines(table, tokenizer, first)) + "\n")
    part.rename(args.out)


if __name__ == "__main__":
    main()
