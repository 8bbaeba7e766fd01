"""A model folder of random weights and a small vocabulary: nothing was learnt, every weight has a say."""

import random
from pathlib import Path

import torch

from recoversat.config import Config, parse_config
from recoversat.files.model_folder import write_description
from recoversat.model.build import build_model
from recoversat.model.weights import save_weights
from recoversat.text.tokenizer import BpeTokenizer
from recoversat.vocab import DEL, EOS, SPECIAL_PIECES

WORDS = [f"w{number}" for number in range(180)]
SHAPE = {"d_model": 32, "d_hidden": 32, "n_heads": 2, "encoder_layers": 2, "decoder_layers": 2, "max_segments": 4}


def tiny_config(**model: object) -> Config:
    """Describe a tiny model; K is drawn from 1, 2 and 4 where it writes step by step."""
    stepwise, dealt = model.get("kind", "segments") in ("segments", "sat"), model.get("kind") == "sat"
    return parse_config(
        {
            "data": {"tokenizer": "bpe", "src_lang": "en", "tgt_lang": "de"},
            "model": SHAPE | {"vocab_size": len(SPECIAL_PIECES) + len(WORDS)} | model,
            "train": {"segments": [1, 2, 4] if stepwise else 1}
            | ({"random_prob": 0, "repeat_prob": 0} if dealt else {}),
            "decode": {"extra_steps": 6},
        }
    )


def write_tiny_model(folder: Path, **model: object) -> Path:
    """Write a model folder as training would."""
    config = tiny_config(**model)
    torch.manual_seed(0)
    network = build_model(config.model)
    for name, parameter in network.named_parameters():
        is_norm = parameter.dim() == 1 and name.endswith("weight")
        torch.nn.init.normal_(parameter, mean=1.0 if is_norm else 0.0, std=0.4)
    if config.model.stepwise:
        _enliven(network.state_dict())
    folder.mkdir(parents=True)
    write_description(folder, config, BpeTokenizer([*SPECIAL_PIECES, *WORDS]), {"step": 7, "corpus": "made up"})
    save_weights(network.state_dict(), folder)
    return folder


@torch.no_grad()
def _enliven(weights: dict[str, torch.Tensor]) -> None:
    """Make neither the source nor the token before decide alone, and segments end now and then either way."""
    for name, weight in weights.items():
        if "cross_attention.output" in name:
            weight *= 0.3
    weights["decoder.norm.weight"].normal_()
    weights["decoder.norm.bias"].zero_()
    weights["embedding.weight"][EOS] *= 2
    weights["embedding.weight"][DEL] *= 1.5


def write_sentences(path: Path, n: int, seed: int = 1) -> list[str]:
    """Write lines of 1 to 12 words."""
    rng = random.Random(seed)
    lines = [" ".join(rng.choices(WORDS, k=rng.randint(1, 12))) for _ in range(n)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return lines
