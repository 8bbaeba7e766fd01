"""Does an imported model write what Hugging Face's transformers writes with the original? Token by token.

    pip install transformers; recoversat import opus-mt-en-fr teacher
    python benchmarks/imported.py reference opus-mt-en-fr sentences.en reference.json
    python benchmarks/imported.py compare teacher reference.json --ref sentences.fr

Ids are compared as pieces, as both number them otherwise. Log-probabilities of what transformers wrote show whether the
models are the same where two searches differ.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

BEAM = 4
_BATCH = 16


def reference(folder: Path, sentences: list[str]) -> dict[str, Any]:
    """Translate with transformers, greedily and with a beam."""
    import torch
    import transformers

    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    model = transformers.MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval()
    found: dict[str, Any] = {"transformers": transformers.__version__, "sentences": []}
    for at in range(0, len(sentences), _BATCH):
        batch = tokenizer(sentences[at : at + _BATCH], return_tensors="pt", padding=True)
        beams = {
            name: model.generate(
                **batch, num_beams=n, max_new_tokens=200, return_dict_in_generate=True, output_scores=True
            )
            for name, n in (("greedy", 1), ("beam", BEAM))
        }
        for i, text in enumerate(sentences[at : at + _BATCH]):
            one: dict[str, Any] = {"text": text, "source": _pieces(tokenizer, batch["input_ids"][i])}
            for name, out in beams.items():
                ids = out.sequences[i, 1:]
                one[name] = _pieces(tokenizer, ids)
                one[f"{name} text"] = tokenizer.decode(
                    ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
                )
            one["beam score"] = float(beams["beam"].sequences_scores[i])
            found["sentences"].append(one)
        print(f"{at + len(batch['input_ids'])} of {len(sentences)}", flush=True)
    return found


def _pieces(tokenizer: Any, ids: Any) -> list[str]:
    kept: list[str] = tokenizer.convert_ids_to_tokens([i for i in ids.tolist() if i != tokenizer.pad_token_id])
    return kept


def compare(model: Path, found: dict[str, Any], references: list[str] | None, graphs: bool, first: int | None) -> None:
    """Print how many sentences come out the same, and how far log-probabilities lie apart."""
    import numpy as np
    import sacrebleu
    import torch

    from recoversat.engines.cuda.engine import GraphEngine
    from recoversat.engines.engine import Options
    from recoversat.engines.torch.engine import TorchEngine
    from recoversat.model.transformer import Transformer
    from recoversat.model.weights import load_model
    from recoversat.text.tokenizer import load_tokenizer
    from recoversat.vocab import UNK

    network, config = load_model(model)
    assert isinstance(network, Transformer)
    tokenizer, cpu = load_tokenizer(model), torch.device("cpu")
    engine = GraphEngine(network, cpu, torch.float32) if graphs else TorchEngine(network, cpu)
    all_of = found["sentences"][:first]
    sources = tokenizer.encode([one["text"] for one in all_of])
    number = len(all_of)
    _tell(
        "sources read as the same pieces",
        [tokenizer.pieces(s) == one["source"] for s, one in zip(sources, all_of, strict=True)],
    )
    decode = config.decode
    options = Options(decode.extra_steps, decode.length_penalty, decode.beam_rule == "transformers")
    of_piece = {piece: i for i, piece in enumerate(tokenizer.pieces(range(tokenizer.size)))}
    given = [[of_piece[piece] for piece in one["beam"]][:-1] for one in all_of]
    known = [i for i, ids in enumerate(given) if UNK not in ids]
    ours: dict[str, list[list[int]]] = {name: [[] for _ in sources] for name in ("greedy", "beam")}
    scores = [0.0] * number
    order = sorted(range(number), key=lambda i: len(sources[i]))  # little padding
    for at in range(0, number, _BATCH):
        part = order[at : at + _BATCH]
        some = [sources[i] for i in part]
        written = {
            "greedy": engine.decode(some, np.ones(len(some), np.int64), options),
            "beam": engine.search(some, BEAM, options),
        }
        scored = engine.score([(sources[i], given[i]) for i in part])
        for place, i in enumerate(part):
            scores[i] = sum(scored[place].log_probs[0])
            for name in ours:
                ours[name][i] = written[name][place].segments[0]
        print(f"{min(at + _BATCH, number)} of {number}", end="\r", file=sys.stderr, flush=True)
    for name in ("greedy", "beam"):
        same = [tokenizer.pieces(ids) == one[name] for ids, one in zip(ours[name], all_of, strict=True)]
        _tell(f"{name}: the same tokens", same)
        texts = [tokenizer.decode(ids) for ids in ours[name]]
        spelt = [text.strip() == one[f"{name} text"] for text, one in zip(texts, all_of, strict=True)]
        _tell(f"{name}: the same text", spelt)
        if references:
            theirs = [one[f"{name} text"] for one in all_of]
            bleu = [sacrebleu.corpus_bleu(side, [references[:number]]).score for side in (texts, theirs)]
            print(f"{name}: BLEU {bleu[0]:.2f}, of transformers {bleu[1]:.2f}")
    # transformers divides by the length, EOS included
    apart = [abs(scores[i] / (len(given[i]) + 1) - all_of[i]["beam score"]) for i in known]
    print(f"log-probability a token of transformers' beam: {max(apart):.2e} apart at most, over {len(known)} sentences")


def _tell(what: str, same: list[bool]) -> None:
    others = [i for i, one in enumerate(same) if not one]
    print(f"{what}: {sum(same)} of {len(same)}" + (f", others: {others[:12]}" if others else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["reference", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--ref", type=Path)
    parser.add_argument("--graphs", action="store_true", help="the graph engine, without graphs where there is no GPU")
    parser.add_argument("--first", type=int, help="only so many sentences")
    asked = parser.parse_args()
    if asked.what == "reference":
        sentences, out = asked.files
        lines = sentences.read_text(encoding="utf-8").splitlines()[: asked.first]
        out.write_text(json.dumps(reference(asked.folder, lines), ensure_ascii=False, indent=1), encoding="utf-8")
        return
    lines = asked.ref.read_text(encoding="utf-8").splitlines() if asked.ref else None
    compare(asked.folder, json.loads(asked.files[0].read_text(encoding="utf-8")), lines, asked.graphs, asked.first)


if __name__ == "__main__":
    main()
