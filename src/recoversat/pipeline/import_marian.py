"""A folder of Hugging Face's MarianMT, such as OPUS-MT's models, becomes an autoregressive teacher of ours.

Special tokens move to our ids: EOS and UNK keep their embeddings, BOS is Marian's start token (its padding), and DEL,
which Marian does not know, starts at zero, as the embedding of the one segment does. So with K = 1 nothing changes.

D model, V vocabulary.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from recoversat.config import Config, did_you_mean, parse_config
from recoversat.errors import UserError
from recoversat.files.model_folder import LICENCE, ORIGIN, write_description
from recoversat.files.storage import atomic_folder, read_json, refuse_existing
from recoversat.model.attention import sinusoids
from recoversat.model.build import build_model
from recoversat.model.weights import fill, save_weights
from recoversat.text.tokenizer import SOURCE_SPM, TARGET_SPM, MarianTokenizer
from recoversat.vocab import BOS, EOS, PAD, SPECIAL_PIECES, UNK

_KIND = "folder of a MarianMT model"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_LICENCES = ("LICEN[CS]E*", "NOTICE*", "README.md")
_EMBEDDING = "model.shared.weight"
_SAME_AS_EMBEDDING = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
_BIAS = "final_logits_bias"
_CODE = re.compile(r">>.+<<")
# what the settings of MarianMT must be: its layers know no other way
_FIXED = {
    "normalize_before": False, "normalize_embedding": False, "add_final_layer_norm": False, "scale_embedding": True,
    "static_position_embeddings": True, "share_encoder_decoder_embeddings": True,
}  # fmt: skip
_EQUAL = (("encoder_attention_heads", "decoder_attention_heads"), ("encoder_ffn_dim", "decoder_ffn_dim"))
_ACTIVATIONS = {"swish": "swish", "silu": "swish", "relu": "relu"}
_EXTRA_STEPS = 60  # more than ours: Marian's models translate into languages that need many more tokens
_ALIGNED, _TOLERANCE = 128, 1e-4  # positions that are compared with ours


@dataclass(frozen=True)
class ImportReport:
    """What was imported, and what to know about it."""

    text: str
    warnings: list[str]


def import_marian(
    folder: Path, out: Path, *, source: str | None = None, target: str | None = None, target_token: str | None = None,
    force: bool = False,
) -> ImportReport:  # fmt: skip
    """Write `out` whole, or nothing where something does not fit."""
    refuse_existing(out, force)
    settings = _settings(folder)
    vocabulary = _Vocabulary.read(folder, settings)
    token = _target_token(vocabulary, folder, target_token)
    tokenizer = MarianTokenizer(*_sentencepiece_models(folder), vocabulary.pieces, token)
    config = _config(folder, settings, vocabulary, _languages(folder, settings, source, target, token))
    model = build_model(config.model)
    fill(model, _translated(_read_weights(folder), config, vocabulary, folder), folder)
    licences = sorted(path for pattern in _LICENCES for path in folder.glob(pattern) if path.is_file())
    name = "/".join(Path(str(settings.get("_name_or_path") or folder.name)).parts[-2:])
    facts = {ORIGIN: name, LICENCE: ", ".join(path.name for path in licences) or "not in the folder"}
    with atomic_folder(out, replace=force) as made:
        write_description(made, config, tokenizer, facts)
        save_weights(model.state_dict(), made)
        for path in licences:
            shutil.copyfile(path, made / f"original-{path.name}")
    sizes = f"{config.model.encoder_layers}+{config.model.decoder_layers} layers of {config.model.d_model}"
    text = f"{name}: {config.data.languages}, {sizes}, {vocabulary.size:,} pieces; written to {out}"
    return ImportReport(text, _warnings(folder, licences, vocabulary))


def _warnings(folder: Path, licences: list[Path], vocabulary: "_Vocabulary") -> list[str]:
    found = []
    if not licences:
        found.append(
            f"{folder} has no licence file (LICENSE or README.md); get the model's card from where it was published and"
            " keep it with every model that learns from this one"
        )
    if vocabulary.unused:
        found.append(f"{folder}: {vocabulary.unused} rows of the embeddings have no piece in vocab.json; left out")
    return found


def _settings(folder: Path) -> dict[str, Any]:
    """Read config.json and refuse what is no MarianMT, or one whose layers compute something else."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; give a {_KIND}")
    settings = read_json(folder / "config.json", _KIND)
    if not isinstance(settings, dict) or settings.get("model_type") != "marian":
        if isinstance(settings, dict) and str(settings.get("format", "")).startswith("recoversat"):
            raise UserError(f"{folder}: this is a model of recoversat already; use it as it is")
        found = settings.get("model_type") if isinstance(settings, dict) else None
        raise UserError(
            f"{folder}: not a {_KIND}: config.json says model_type {found!r}, not 'marian'; get one of MarianMT"
        )
    for key, wanted in _FIXED.items():
        if settings.get(key, wanted) != wanted:
            raise UserError(f"{folder}: config.json says {key} {settings[key]}; only {wanted} can be imported")
    for one, other in _EQUAL:
        if settings.get(one) != settings.get(other):
            raise UserError(f"{folder}: {one} and {other} differ; only models in which they are equal can be imported")
    if settings.get("activation_function") not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise UserError(f"{folder}: activation {settings.get('activation_function')!r} is not known; there are {known}")
    return settings


def _sentencepiece_models(folder: Path) -> tuple[bytes, bytes]:
    for name in (SOURCE_SPM, TARGET_SPM):
        if not (folder / name).is_file():
            raise UserError(f"{folder}: not a {_KIND} ({name} is missing); get the whole folder again")
    return (folder / SOURCE_SPM).read_bytes(), (folder / TARGET_SPM).read_bytes()


@dataclass(frozen=True)
class _Vocabulary:
    """Marian's vocabulary in our order."""

    pieces: list[str]
    rows: list[int | None]  # the row of Marian's embedding of each of our ids; None: it has none
    unused: int  # rows of the embedding that have no piece

    @property
    def size(self) -> int:
        return len(self.pieces)

    @classmethod
    def read(cls, folder: Path, settings: dict[str, Any]) -> "_Vocabulary":
        """Read vocab.json and check that it fits what config.json says."""
        path = folder / "vocab.json"
        ids = read_json(path, _KIND)
        size, whole = settings.get("vocab_size"), isinstance(ids, dict) and all(type(i) is int for i in ids.values())
        if not whole or not isinstance(size, int) or not 0 <= min(ids.values(), default=-1) <= max(ids.values()) < size:
            raise UserError(f"{path}: does not fit config.json, which has room for {size} ids; get both files again")
        if len(set(ids.values())) < len(ids):
            raise UserError(f"{path}: two pieces have the same id; get the file again")
        special = {PAD: "pad_token_id", BOS: "decoder_start_token_id", EOS: "eos_token_id"}
        found: dict[int, int | None] = {one: settings.get(key) for one, key in special.items()} | {
            UNK: ids.get("<unk>")
        }
        if (
            ids.get("</s>") != found[EOS]
            or None in found.values()
            or not all(0 <= (i or 0) < size for i in found.values())
        ):
            keys = ", ".join([*special.values(), "<unk> and </s>"])
            raise UserError(f"{path}: does not fit config.json: both must name {keys}; get both files again")
        if found[PAD] != found[BOS]:
            raise UserError(
                f"{folder}: decoder_start_token_id is not pad_token_id, as it is in Marian; get config.json again"
            )
        taken = {*found.values()}
        others = sorted((i, piece) for piece, i in ids.items() if i not in taken)
        rows = [found.get(index) for index in range(len(SPECIAL_PIECES))]  # DEL has none
        return cls(
            [*SPECIAL_PIECES, *(piece for _, piece in others)], [*rows, *(i for i, _ in others)],
            size - len({*ids.values(), *taken}),
        )  # fmt: skip

    @property
    def codes(self) -> list[str]:
        """The target languages of a multilingual model, as its tokens name them: >>fra<<."""
        return [piece for piece in self.pieces if _CODE.fullmatch(piece)]


def _target_token(vocabulary: _Vocabulary, folder: Path, asked: str | None) -> str | None:
    """Return the token that chooses the target language; only multilingual models have any, and need one."""
    codes = vocabulary.codes
    if not codes:
        if asked:
            raise UserError(
                f"--target-token {asked}: {folder} has one target language and no such tokens; leave it out"
            )
        return None
    shown = ", ".join(code.strip("<>") for code in codes[:12]) + (", ..." if len(codes) > 12 else "")
    if not asked:
        raise UserError(
            f"{folder}: a multilingual model, which chooses the target language by a token: add --target-token,"
            f" one of {shown}"
        )
    token = f">>{asked.strip('<>')}<<"
    if token not in codes:
        known = [code.strip("<>") for code in codes]
        raise UserError(f"--target-token {asked}: {folder} has no {token}; {did_you_mean(asked, known, shown)}")
    return token


def _languages(
    folder: Path, settings: dict[str, Any], source: str | None, target: str | None, token: str | None
) -> tuple[str, str]:
    """Return the language codes: those asked for, or those that the folder names."""
    notes = read_json(folder / "tokenizer_config.json", _KIND) if (folder / "tokenizer_config.json").is_file() else {}
    named = re.search(r"opus-mt-([a-z]+)-([a-z]+)$", str(settings.get("_name_or_path", "")))
    from_name = named.groups() if named else (None, None)
    one = source or notes.get("source_lang") or from_name[0]
    other = target or (token and token.strip("<>")) or notes.get("target_lang") or from_name[1]
    if not one or not other:
        raise UserError(
            f"{folder}: does not say which languages it translates; add --from and --to, e.g. --from en --to fr"
        )
    return str(one), str(other)


def _config(folder: Path, settings: dict[str, Any], vocabulary: _Vocabulary, languages: tuple[str, str]) -> Config:
    source, target = languages
    said = folder / "generation_config.json"
    search = settings | (read_json(said, _KIND) if said.is_file() else {})
    model = {
        "d_model": settings["d_model"], "d_hidden": settings["encoder_ffn_dim"],
        "n_heads": settings["encoder_attention_heads"], "encoder_layers": settings["encoder_layers"],
        "decoder_layers": settings["decoder_layers"], "dropout": settings.get("dropout", 0.1), "max_segments": 1,
        "norm": "after", "activation": _ACTIVATIONS[settings["activation_function"]], "positions": "halves",
        "output_bias": True, "vocab_size": vocabulary.size,
    }  # fmt: skip
    return parse_config(
        {
            "data": {"src_lang": source, "tgt_lang": target, "vocab_size": max(16, vocabulary.size)},
            "model": model,
            "train": {"segments": 1},
            "decode": {
                "length_penalty": search.get("length_penalty", 1.0),
                "beam_rule": "transformers",
                "beam": search.get("num_beams", 4),
                "extra_steps": _EXTRA_STEPS,
            },
        }
    )


def _read_weights(folder: Path) -> dict[str, Tensor]:
    """Read safetensors, or a pickle of nothing but weights, which may run no code."""
    path = next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
    if path is None:
        raise UserError(f"{folder}: not a {_KIND} ({' or '.join(_WEIGHTS)} is missing); get the whole folder again")
    try:
        weights = load_file(path) if path.suffix == ".safetensors" else _unpickled(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: damaged ({error}); get it again") from None
    for name, tensor in weights.items():
        if not tensor.is_floating_point() or not torch.isfinite(tensor).all():
            raise UserError(f"{path}: {name} holds something else than finite numbers; get it again")
    return weights


def _unpickled(path: Path) -> dict[str, Tensor]:
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{path}: damaged, or holds more than weights, which is not read as it could run code ({reason}); get it"
            " again, or as model.safetensors"
        ) from None
    if not isinstance(weights, dict) or not all(isinstance(one, Tensor) for one in weights.values()):
        raise UserError(f"{path}: not the weights of a model; get it again")
    return weights


def _translated(weights: dict[str, Tensor], config: Config, vocabulary: _Vocabulary, folder: Path) -> dict[str, Tensor]:
    """Name and order Marian's weights as a Transformer of ours does."""
    left = dict(weights)

    def take(name: str, *shape: int) -> Tensor:
        found = left.pop(name, None)
        if found is None:
            raise UserError(f"{folder}: {name} is missing in its weights; get the whole folder again")
        if shape and tuple(found.shape) != shape:
            raise UserError(f"{folder}: {name} is {tuple(found.shape)}, config.json asks for {shape}; get both again")
        return found.float()

    model, rows = config.model, vocabulary.size - len(SPECIAL_PIECES)
    size = max(row for row in vocabulary.rows if row is not None) + 1
    size = max(size, rows)
    if _EMBEDDING not in left:  # safetensors keep tensors that are shared once, under any of their names
        left[_EMBEDDING] = next((left[name] for name in _SAME_AS_EMBEDDING if name in left), torch.empty(0))
    embedding = take(_EMBEDDING)
    if embedding.dim() != 2 or len(embedding) < size or embedding.shape[1] != model.d_model:
        raise UserError(
            f"{folder}: {_EMBEDDING} is {tuple(embedding.shape)}, vocab.json and config.json ask for"
            f" {(size, model.d_model)}; get all three again"
        )
    for name in _SAME_AS_EMBEDDING:
        if name in left and not torch.equal(take(name), embedding):
            raise UserError(f"{folder}: {name} differs from {_EMBEDDING}; only shared embeddings can be imported")
    _check_positions(left, model.d_model, folder)
    bias = take(_BIAS, 1, len(embedding))[0] if _BIAS in left else torch.zeros(len(embedding))
    named = {
        "embedding.weight": _in_our_order(embedding, vocabulary),
        "segment_embedding.weight": torch.zeros(model.max_segments, model.d_model),
        "output_bias": _in_our_order(bias, vocabulary),
    }
    for stack, count in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        for layer in range(count):
            for ours, parts in _PARTS[stack].items():
                for kind in ("weight", "bias"):
                    theirs = [take(f"model.{stack}.layers.{layer}.{part}.{kind}") for part in parts]
                    named[f"{stack}.layers.{layer}.{ours}.{kind}"] = torch.cat(theirs)
    if left:
        raise UserError(f"{folder}: its weights hold {min(left)}, which config.json does not ask for; get both again")
    return named


_PARTS = {
    "encoder": {
        "self_attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "self_attention.output": ("self_attn.out_proj",),
        "attention_norm": ("self_attn_layer_norm",),
        "feed_forward.inner": ("fc1",),
        "feed_forward.outer": ("fc2",),
        "feed_forward_norm": ("final_layer_norm",),
    }
}
_PARTS["decoder"] = _PARTS["encoder"] | {
    "cross_attention.query": ("encoder_attn.q_proj",),
    "cross_attention.key_value": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross_attention.output": ("encoder_attn.out_proj",),
    "cross_norm": ("encoder_attn_layer_norm",),
}


def _check_positions(left: dict[str, Tensor], d_model: int, folder: Path) -> None:
    """Take out the positional encodings that some folders hold; they must be those we compute."""
    for name in _POSITIONS:
        found = left.pop(name, None)
        if found is None:
            continue
        ours = sinusoids(torch.arange(min(len(found), _ALIGNED)), d_model, halves=True)
        if found.shape[1:] != ours.shape[1:] or not torch.allclose(found[: len(ours)].float(), ours, atol=_TOLERANCE):
            raise UserError(f"{folder}: {name} holds learnt positions; only sinusoids can be imported")


def _in_our_order(values: Tensor, vocabulary: _Vocabulary) -> Tensor:
    """Reorder rows from Marian's ids to ours; what Marian does not know, DEL, is 0."""
    known = torch.tensor([row if row is not None else 0 for row in vocabulary.rows])
    ordered = values[known].clone()
    ordered[[index for index, row in enumerate(vocabulary.rows) if row is None]] = 0
    return ordered
