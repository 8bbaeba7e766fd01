"""Marian (`pymarian`), on a CPU, with a folder that has a `decoder.yml`, as OPUS-MT's have."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from recoversat.config import Config, ModelConfig
from recoversat.errors import UserError
from recoversat.files.storage import fingerprint
from recoversat.measuring.specs import SystemSpec
from recoversat.measuring.system import JSON, Done, Peer, PeerTranslation, Weights, nothing_done
from recoversat.text.tokenizer import Tokenizer

_PACKED, _SIZE = 0x10800, 0xFF  # in the type of a tensor of a .bin: packed or intgemm; the bytes of an element
Array = NDArray[Any]
_NEVER = -1e4  # the bias of EOS in a model that is to write a fixed number of words
_END, _UNKNOWN = "</s>", "<unk>"  # ids 0 and 1
SHORTLIST = (50, 50)  # the most frequent words, and the likeliest translations of each word of the source
# What `bench --untrained` writes: our layers; Firefox's, whose decoder has a simple recurrent unit for attention; and
# those with a shortlist, whose output matrix is the one of the embeddings and stays in float32.
_UNTRAINED = {"": (False, False), " ssru": (True, False), " ssru shortlist": (True, True)}
_BLOCK = 64  # its int8 products know only sizes that this divides


class Marian(Peer):
    """Text in, text out; Marian splits words itself."""

    title, package, marker = "Marian", "pymarian", "decoder.yml"
    note = "Marian's wheel is built without some AVX2 kernels: a Marian built for one machine may be faster."

    def __init__(self, spec: SystemSpec, device: str = "cpu", threads: int = 0) -> None:
        super().__init__(spec, device, threads)
        if device != "cpu":
            raise UserError(f"{spec.name}: pymarian's wheels are for CPUs; measure it with --device cpu")
        if missing := self.missing():
            raise UserError(missing)
        if " " in spec.path:
            raise UserError(f"{spec.path}: Marian takes no paths with blanks in them; rename the folder")
        from pymarian import Translator

        settings = yaml.safe_load((self.folder / self.marker).read_text(encoding="utf-8"))
        self._weights = self.folder / settings["models"][0]
        self._ids = _reader(self.folder / settings["vocabs"][-1])
        threads = threads or os.cpu_count() or 1
        self._model = Translator(
            f"-c {self.folder / self.marker} --cpu-threads {threads} --beam-size {spec.beam}"
            " --workspace 128 --skip-cost --quiet --quiet-translation"
        )
        self.facts = {
            "family": self.package, "engine": f"marian {version('pymarian')}", "segments": 1, "device": device,
            "precision": _precision(self._weights), "threads": threads, "beam": spec.beam,
            "bytes": self._weights.stat().st_size,
        }  # fmt: skip

    @classmethod
    def write_untrained(
        cls, folder: Path, weights: Weights, config: Config, tokenizer: Tokenizer, device: str
    ) -> Iterator[tuple[Path, str]]:
        sizes = (config.model.d_model, config.model.d_hidden, 8 * tokenizer.size)
        precision = "float32" if any(size % _BLOCK for size in sizes) else "int8"
        for kind, (ssru, shortlist) in _UNTRAINED.items() if device == "cpu" else ():
            path = folder / f"marian{kind}".replace(" ", "-")
            if not cls.missing():
                path.mkdir()
                words = tokenizer.pieces(range(tokenizer.size))
                model = _arrays(weights, config.model, ssru, shortlist)
                _write(path, model, words, "intgemm8" if precision == "int8" else precision, shortlist)
            yield path, f"{precision}{kind}"

    def settings(self) -> dict[str, JSON]:
        """Add the weights, which `decoder.yml` only names."""
        return super().settings() | {"weights": [fingerprint(self.folder / self.marker), fingerprint(self._weights)]}

    def source_lengths(self, texts: Sequence[str]) -> list[int]:
        return list(map(len, self._ids(texts)))

    def translate(
        self, texts: Sequence[str], batch_size: int, length: int | None = None, done: Done = nothing_done
    ) -> list[PeerTranslation]:
        options: dict[str, float] = {"mini-batch": batch_size, "maxi-batch": max(1, len(texts) // batch_size)}
        if length:  # Marian stops at the first step that reaches this many times the source, its EOS included
            options["max-length-factor"] = (length - 0.5) / (max(self.source_lengths(texts)) + 1)
        lines = self._model.translate(list(texts), **options) if texts else []
        done(len(texts))
        return [PeerTranslation(line, ids) for line, ids in zip(lines, self._ids(lines), strict=True)]


def _reader(vocabulary: Path) -> Callable[[Sequence[str]], list[list[int]]]:
    """Return how text becomes ids: by SentencePiece, or word by word."""
    if vocabulary.suffix == ".spm":
        from sentencepiece import SentencePieceProcessor

        encode = SentencePieceProcessor(model_file=str(vocabulary)).encode
        return lambda texts: list(encode(list(texts)))
    text = vocabulary.read_text(encoding="utf-8")
    known: dict[str, int] = (
        {word: index for index, word in enumerate(text.splitlines())}
        if vocabulary.suffix == ".txt"
        else yaml.safe_load(text)
    )
    return lambda texts: [[known.get(word, known[_UNKNOWN]) for word in line.split()] for line in texts]


def _precision(model: Path) -> str:
    """Say what the matrices of a model are stored in; the header of a .bin has the type of each."""
    if model.suffix != ".bin":
        return "float32"
    _, n_tensors = np.fromfile(model, "<u8", 2)
    types = np.fromfile(model, "<u8", 4 * int(n_tensors), offset=16).reshape(-1, 4)[:, 1]
    packed = types[(types & _PACKED) > 0]
    return f"int{8 * int(packed.min() & _SIZE)}" if len(packed) else "float32"


def _write(path: Path, model: dict[str, Any], pieces: list[str], products: str, shortlist: bool) -> None:
    words = [_END, _UNKNOWN, *(piece for piece in pieces if piece not in (_END, _UNKNOWN))]
    (path / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    vocabularies = ["vocab.txt", "vocab.txt"]
    settings = {"relative-paths": True, "models": ["model.bin"], "vocabs": vocabularies}
    if shortlist:
        _write_lexicon(path / "lex.txt", words)
        _convert(path, "-s", "lex.txt", *map(str, SHORTLIST), "0", "-V", *vocabularies, "-d", "lex.bin")
        settings["shortlist"] = ["lex.bin", "false"]
    arrays: dict[str, Any] = dict(model)
    np.savez(path / "model.npz", **arrays)
    _convert(path, "-f", "model.npz", "-t", "model.bin", "-g", products)
    (path / "model.npz").unlink()
    (path / Marian.marker).write_text(yaml.safe_dump(settings), encoding="utf-8")


def _convert(folder: Path, *arguments: str) -> None:
    """Run Marian's converter in a process of its own: it ends the process where it finds a mistake."""
    ran = subprocess.run(
        [sys.executable, "-m", "pymarian", "convert", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise UserError(f"Marian cannot convert {folder}: {ran.stderr[-500:]}")


def _write_lexicon(path: Path, words: list[str]) -> None:
    """Make translations up for every word: as many as a shortlist may take."""
    drawn = np.random.default_rng(1).integers(2, len(words), (len(words), SHORTLIST[1]))
    chance = 1 / SHORTLIST[1]
    with path.open("w", encoding="utf-8") as file:
        for word, others in zip(words, drawn, strict=True):
            file.writelines(f"{words[other]} {word} {chance}\n" for other in others)


def _architecture(config: ModelConfig, n_words: int, ssru: bool, tied: bool) -> Array:
    """Say what the arrays are, in the way that Marian keeps with them."""
    told = {
        "type": "transformer", "version": "1.12", "dim-vocabs": [n_words, n_words], "tied-embeddings-all": tied,
        "dim-emb": config.d_model, "transformer-dim-ffn": config.d_hidden, "transformer-heads": config.n_heads,
        "enc-depth": config.encoder_layers, "dec-depth": config.decoder_layers, "dec-cell": "ssru",
        "transformer-decoder-autoreg": "rnn" if ssru else "self-attention", "transformer-ffn-activation": "relu",
        "transformer-preprocess": "n", "transformer-postprocess": "a", "transformer-postprocess-top": "n",
    }  # fmt: skip
    return np.frombuffer(yaml.safe_dump(told).encode() + b"\0", np.int8)


def _arrays(weights: Weights, config: ModelConfig, ssru: bool, tied: bool) -> dict[str, Array]:
    """Return weights under Marian's names, as a model that never ends by itself.

    Marian's matrices are (inputs, outputs), its vectors (1, outputs).
    """
    embedding = weights["embedding.weight"]
    bias = np.zeros((1, len(embedding)), np.float32)
    bias[0, 0] = _NEVER
    told = _architecture(config, len(embedding), ssru, tied)
    arrays: dict[str, Array] = {"special:model.yml": told, "decoder_ff_logit_out_b": bias}
    arrays |= {"Wemb": embedding} if tied else {"encoder_Wemb": embedding, "decoder_Wemb": embedding}
    arrays |= {} if tied else {"decoder_ff_logit_out_W": np.ascontiguousarray(embedding.T)}

    def linear(ours: str, *names: str) -> None:  # "W#": a matrix W and its bias b, one after the other in ours
        parts = [np.split(weights[f"{ours}.{kind}"], len(names)) for kind in ("weight", "bias")]
        for name, matrix, vector in zip(names, *parts, strict=True):
            arrays[name.replace("#", "W")] = np.ascontiguousarray(matrix.T)
            arrays[name.replace("#", "b")] = vector[None]

    def norm(ours: str, name: str, when: str = "_pre") -> None:
        arrays[f"{name}_ln_scale{when}"] = weights[f"{ours}.weight"][None]
        arrays[f"{name}_ln_bias{when}"] = weights[f"{ours}.bias"][None]

    for side, depth in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        norm(f"{side}.norm", f"{side}_top", "")
        for n in range(depth):
            ours, theirs = f"{side}.layers.{n}", f"{side}_l{n + 1}"
            if ssru and side == "decoder":  # its two matrices take the place of three, and of the output's
                linear(f"{ours}.self_attention.qkv", f"{theirs}_rnn_#", f"{theirs}_rnn_#f", f"{theirs}_unused_#")
                norm(f"{ours}.attention_norm", f"{theirs}_rnn")
            else:
                linear(f"{ours}.self_attention.qkv", *(f"{theirs}_self_#{part}" for part in "qkv"))
                linear(f"{ours}.self_attention.output", f"{theirs}_self_#o")
                norm(f"{ours}.attention_norm", f"{theirs}_self_Wo")
            if side == "decoder":
                linear(f"{ours}.cross_attention.query", f"{theirs}_context_#q")
                linear(f"{ours}.cross_attention.key_value", f"{theirs}_context_#k", f"{theirs}_context_#v")
                linear(f"{ours}.cross_attention.output", f"{theirs}_context_#o")
                norm(f"{ours}.cross_norm", f"{theirs}_context_Wo")
            linear(f"{ours}.feed_forward.inner", f"{theirs}_ffn_#1")
            linear(f"{ours}.feed_forward.outer", f"{theirs}_ffn_#2")
            norm(f"{ours}.feed_forward_norm", f"{theirs}_ffn_ffn")
    return {name: array for name, array in arrays.items() if "_unused_" not in name and not name.endswith("_rnn_b")}
