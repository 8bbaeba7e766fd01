"""Every setting there is: one line each, checked when read; the paper's presets.

An unknown key is an error that names the nearest valid one.
"""

import difflib
import re
from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from recoversat.errors import UserError
from recoversat.inference.repairs import REPAIRS

# what a model is: RecoverSAT (and AT), or one of its neighbours (docs/neighbours.md)
Kind = Literal["segments", "sat", "nat", "cmlm", "ctc"]


class Section(BaseModel):
    """A group of settings; unknown keys are refused, values never change after reading.

    The title of a field is the paper's symbol for it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)


class DataConfig(Section):
    """How text becomes ids, and which pairs are kept."""

    tokenizer: Literal["sentencepiece", "bpe"] = Field(
        "sentencepiece", description="'sentencepiece' learns a joint BPE; 'bpe' reads text already split with '@@ '"
    )
    vocab_size: int = Field(40_000, ge=16, description="pieces shared by both languages (an upper bound for 'bpe')")
    tokenizer_sentences: int = Field(1_000_000, ge=1, description="at most so many lines train the tokenizer")
    max_tokens: int = Field(128, ge=1, description="drop pairs with a side longer than this, in tokens")
    max_ratio: float = Field(3.0, ge=1, description="drop pairs when (longer + 5) > max_ratio * (shorter + 5)")
    drop_duplicates: bool = Field(True, description="keep only the first of identical pairs")
    src_lang: str = Field("src", description="language code of the source, kept with the model")
    tgt_lang: str = Field("tgt", description="language code of the target, kept with the model")
    both_directions: bool = Field(
        False, description="learn to translate tgt_lang into src_lang too: every pair is used twice"
    )

    @property
    def directions(self) -> list[tuple[str, str]]:
        """The pairs of languages a model learns to translate between, as (from, to)."""
        forward = (self.src_lang, self.tgt_lang)
        return [forward, forward[::-1]] if self.both_directions else [forward]

    @property
    def tagged(self) -> bool:
        """Whether a source begins with a tag that says into which language it is to be translated."""
        return len({into for _, into in self.directions}) > 1

    @property
    def languages(self) -> str:
        """Name the languages and what is translated: en -> de, or en <-> de."""
        return f"{self.src_lang} {'<->' if self.both_directions else '->'} {self.tgt_lang}"

    @model_validator(mode="after")
    def _two_languages(self) -> "DataConfig":
        if self.both_directions and (self.src_lang == self.tgt_lang or self.tokenizer == "bpe"):
            raise ValueError("both_directions needs two language codes (src_lang, tgt_lang) and sentencepiece")
        return self


class ModelConfig(Section):
    """The Transformer's shape; teacher (K = 1) and student share it."""

    kind: Kind = Field(
        "segments", description="'segments' = RecoverSAT or AT; others are its neighbours (neighbours.md)"
    )
    d_model: int = Field(512, title="d_model", ge=2, description="width of embeddings and layers")
    d_hidden: int = Field(512, title="d_hidden", ge=1, description="width of the feed-forward layers")
    n_heads: int = Field(8, title="n_head", ge=1, description="attention heads; must divide d_model")
    encoder_layers: int = Field(6, title="n_layer", ge=1, description="depth of the encoder")
    decoder_layers: int = Field(6, title="n_layer", ge=1, description="depth of the decoder")
    dropout: float = Field(
        0.1, title="p_dropout", ge=0, lt=1, description="on embeddings and on the output of each sub-layer"
    )
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="on attention weights")
    activation_dropout: float = Field(0.0, ge=0, lt=1, description="inside the feed-forward layers")
    max_segments: int = Field(10, ge=1, description="segment embeddings the model has: decodes at any K up to this")
    norm: Literal["before", "after"] = Field(
        "before", description="layer norms before each sub-layer, or after it and its residual, as Marian's models do"
    )
    activation: Literal["relu", "swish"] = Field("relu", description="inside the feed-forward layers")
    positions: Literal["interleaved", "halves"] = Field(
        "interleaved", description="sines and cosines of the positional encoding in turn, or all sines first"
    )
    output_bias: bool = Field(False, description="add a bias for each token to the logits")
    upsample: int = Field(3, ge=1, description="of 'ctc': places to write for each source token")
    glancing: float = Field(
        0.5, ge=0, le=1, description="of 'ctc': tokens shown to the decoder in training, as a share of its wrong places"
    )
    vocab_size: int | None = Field(None, description="filled in from the tokenizer when training starts")

    @property
    def stepwise(self) -> bool:
        """Whether tokens are written step after step, or all places of a target in one pass."""
        return self.kind in ("segments", "sat")

    @model_validator(mode="after")
    def _heads_divide(self) -> "ModelConfig":
        if self.d_model % self.n_heads:
            raise ValueError(f"n_heads = {self.n_heads} does not divide d_model = {self.d_model}")
        if self.d_model % 2:
            raise ValueError(f"d_model = {self.d_model} must be even (sinusoids come in pairs)")
        return self

    @property
    def plain(self) -> bool:
        """Whether the layers are those that every engine and format knows: not imported from Marian."""
        return (self.norm, self.activation, self.positions, self.output_bias) == (
            "before",
            "relu",
            "interleaved",
            False,
        )

    @model_validator(mode="after")
    def _neighbours_are_plain(self) -> "ModelConfig":
        if not self.stepwise and not self.plain:
            raise ValueError(f"model.kind {self.kind}: leave out norm, activation, positions and output_bias")
        return self


class TrainConfig(Section):
    """How the model learns."""

    segments: int | list[int] = Field(
        10, title="K", description="one number, or a list from which each sentence draws its own"
    )
    random_prob: float = Field(
        1.0, title="p", ge=0, le=1, description="probability of dividing a target at random, not evenly"
    )
    anneal: bool = Field(True, description="p falls linearly from random_prob to 0 over schedule_steps")
    repeat_prob: float = Field(0.5, title="q", ge=0, le=1, description="probability of injecting a pseudo repetition")
    train_on_copies: bool = Field(
        False, description="also train the tokens of the injected repetition, not only its DEL"
    )
    cut_at: Literal["token", "word"] = Field("token", description="where a division may fall")
    delete_tokens: float = Field(
        0.0, ge=0, le=1, description="probability of reading a target as a draft that says up to 3 tokens twice: DEL"
    )
    steps: int = Field(100_000, ge=1, description="optimizer updates")
    batch_tokens: int = Field(32_768, ge=1, description="target tokens an update, over all processes")
    accumulate: int = Field(1, ge=1, description="forward passes an update is split into, on each process")
    schedule: Literal["linear", "inverse_sqrt"] = Field("linear", description="shape of the learning rate")
    schedule_steps: int | None = Field(
        None, ge=1, description="updates over which learning rate and p fall, after which they stay; null = steps"
    )
    learning_rate: float | None = Field(
        3e-4, gt=0, description="its peak; null with inverse_sqrt = (d_model * warmup)^-0.5"
    )
    final_learning_rate: float = Field(1e-5, ge=0, description="where the linear schedule ends")
    warmup: int = Field(0, title="t_warmup", ge=0, description="updates over which the learning rate rises from 0")
    label_smoothing: float = Field(
        0.15, title="ε_ls", ge=0, lt=1, description="probability mass spread over the vocabulary"
    )
    optimizer: Literal["adamw", "muon"] = Field(
        "adamw", description="'muon' moves the layers' matrices by Muon, all else by AdamW: fewer updates"
    )
    adam_beta2: float = Field(0.98, gt=0, lt=1, description="Adam's second moment decay")
    weight_decay: float = Field(0.0, ge=0, description="decoupled weight decay")
    clip_norm: float | None = Field(None, gt=0, description="clip the gradient to this norm; null = never")
    objective: str | None = Field(
        None, pattern=r"^[\w.]+:\w+$", description="a loss of your own as module:function (own-loss.md); null = ours"
    )
    seed: int = Field(1, ge=0, description="address of all randomness")
    precision: Literal["auto", "fp32", "bf16"] = Field("auto", description="'auto' = bf16 on a GPU, fp32 on a CPU")
    compile: bool | Literal["auto"] = Field("auto", description="compile layers; 'auto' = on a GPU, from 5,000 updates")
    workers: int = Field(
        2, ge=0, description="processes that divide and pack batches ahead; 0 = in the training process"
    )
    log_every: int = Field(50, ge=1, description="updates between two lines of the log")
    save_every: int = Field(1000, ge=1, description="updates between two checkpoints")
    validate_every: int = Field(1000, ge=1, description="updates between two validations by BLEU")
    tensorboard: bool = Field(True, description="write TensorBoard events beside the log")
    keep_checkpoints: int = Field(5, ge=1, description="newest checkpoints kept, for averaging")

    @model_validator(mode="after")
    def _sound(self) -> "TrainConfig":
        if not self.segment_choices or min(self.segment_choices) < 1:
            raise ValueError("segments must be one number or a list of numbers, each at least 1")
        if self.learning_rate is None and (self.schedule != "inverse_sqrt" or not self.warmup):
            raise ValueError("learning_rate may be null only with schedule inverse_sqrt and a warmup")
        return self

    @property
    def segment_choices(self) -> list[int]:
        """The values of K that training draws from."""
        return [self.segments] if isinstance(self.segments, int) else list(self.segments)

    @property
    def falls_until(self) -> int:
        """The update at which learning rate and p have fallen to their end, where they fall at all."""
        return self.schedule_steps or self.steps

    @property
    def falling(self) -> list[str]:
        """What depends on `falls_until`, in words."""
        divides = self.anneal and self.random_prob > 0 and max(self.segment_choices) > 1
        rate = [f"the learning rate falls to {self.final_learning_rate:g}"] if self.schedule == "linear" else []
        return rate + (["p falls to 0"] if divides else [])


if TYPE_CHECKING:

    class _RepairSwitches(Section):
        def __getattr__(self, name: str) -> bool: ...
else:
    _fields = {name: (bool, Field(switch.default, description=switch.description)) for name, switch in REPAIRS.items()}
    _RepairSwitches = create_model("_RepairSwitches", __base__=Section, **_fields)


# `decode.quality`, one dial for people, read in the place of others: what each of its values stands for. A way to write
# that is named here, and is a setting of `decode` below, can be asked for from Python, the command line and over HTTP.
_PLAIN: dict[str, Any] = {"exact": False, "tolerance": 0.0}
QUALITIES: dict[str, dict[str, Any]] = {
    "fast": _PLAIN,
    "balanced": _PLAIN | {"exact": True, "tolerance": 1.0},
    "best": _PLAIN | {"exact": True, "tolerance": 0.5},
    "exact": _PLAIN | {"exact": True},
}
if TYPE_CHECKING:
    Quality = str
else:
    Quality = Literal[*QUALITIES]


def with_quality(settings: dict[str, Any]) -> dict[str, Any]:
    """Replace `quality` by the settings it stands for; those named beside it win.

    >>> with_quality({"quality": "best", "tolerance": 0.2})
    {'exact': True, 'tolerance': 0.2}
    """
    if "quality" not in settings:
        return settings
    quality = settings["quality"]
    if not isinstance(quality, str) or quality not in QUALITIES:
        raise UserError(f"quality: there are {', '.join(QUALITIES)}, not {quality!r}")
    return QUALITIES[quality] | {key: value for key, value in settings.items() if key != "quality"}


_REMOVED = {"best_of": 1, "doubt": None}  # settings of earlier versions, and the values that changed nothing


def _without_removed(values: dict[str, Any]) -> dict[str, Any]:
    """Leave out settings that no longer exist, as folders of earlier versions have them; refuse what they asked for."""
    for name, neutral in _REMOVED.items():
        if values.get(name, neutral) != neutral:
            raise ValueError(f"decode.{name} no longer exists; use decode.quality=balanced")
    return {key: value for key, value in values.items() if key not in _REMOVED}


class DecodeConfig(_RepairSwitches):
    """How a trained model writes; every repair of `recoversat.inference.repairs` is a switch here too."""

    repairs: Literal["model", "none"] = Field(
        "model", description="'none' = no repair at all, as the paper decodes; 'model' = those switched on here"
    )
    extra_steps: int = Field(20, ge=1, description="a segment may take ceil(source length / K) + extra_steps steps")
    beam: int = Field(
        4, ge=1, le=100, description="beam size of the teacher in fit; translate and evaluate are told theirs"
    )
    length_penalty: float = Field(0.6, ge=0, description="alpha in ((5 + length) / 6)^alpha")
    beam_rule: Literal["exact", "transformers"] = Field(
        "exact", description="search until none can be better; or as transformers does, where scores are / length^alpha"
    )
    segment_length: float = Field(
        5.0, gt=0, description="with --segments auto: source tokens a segment, which decide K sentence by sentence"
    )
    most_segments: int | None = Field(
        None, ge=1, description="with --segments auto: the largest K it takes; null = the largest that was trained"
    )
    usual: Quality = Field("fast", description="the quality of what is asked for without naming K or a quality")
    iterations: int = Field(
        10, ge=1, description="of model.kind cmlm: passes in which a translation is written and refined"
    )
    lengths: int = Field(
        5, ge=1, description="of model.kind cmlm: lengths in which a sentence is written; the best is kept"
    )
    exact: bool = Field(
        False, description="write what K = 1 writes, drafted in segments and verified if that is sooner"
    )
    tolerance: float = Field(
        0.0,
        ge=0,
        description="with exact: a drafted token stands that K = 1 finds less likely than its own by up to this",
    )
    begin_at: Literal["token", "word"] = Field(
        "token", description="where K > 1, what a segment may begin with: any token, or none inside a word"
    )
    shortlist: bool = Field(
        True, description="of an exported model that has one: choose among pieces that the source can become"
    )
    verify_shortlist: bool = Field(
        True, description="write what the whole vocabulary would; false: faster, some sentences come out otherwise"
    )

    @model_validator(mode="before")
    @classmethod
    def _dial(cls, values: Any) -> Any:
        return with_quality(_without_removed(values)) if isinstance(values, dict) else values


DECODE_SETTINGS = (*DecodeConfig.model_fields, "quality")


class Config(Section):
    """All settings of one system."""

    preset: str | None = Field(None, description="name of the preset the other values started from")
    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()

    @property
    def auto_choices(self) -> list[int]:
        """The values of K that a sentence's length chooses from, ascending."""
        known, most = sorted(set(self.train.segment_choices)), self.decode.most_segments
        return [k for k in known if most is None or k <= most] or known[:1]

    @property
    def advice(self) -> str | None:
        """What is allowed, and has translated badly where it was tried.

        >>> print(Config().advice, Config(model=ModelConfig(decoder_layers=1)).advice, sep="; ")
        None; one decoder layer was too few for segments, which left words out: try model.decoder_layers=2 or more
        """
        if self.model.kind == "segments" and self.model.decoder_layers == 1 and max(self.train.segment_choices) > 1:
            return (
                "one decoder layer was too few for segments, which left words out: try model.decoder_layers=2 or more"
            )
        return None

    @model_validator(mode="after")
    def _segments_fit(self) -> "Config":
        if not self.model.stepwise and self.train.segment_choices != [1]:
            raise ValueError(f"model.kind {self.model.kind} writes one segment: add train.segments=1")
        train = self.train
        if self.model.kind == "sat" and (train.random_prob or train.repeat_prob or train.cut_at != "token"):
            raise ValueError("model.kind sat deals tokens out in turn: add train.random_prob=0 and train.repeat_prob=0")
        if self.model.kind != "segments" and train.delete_tokens:
            raise ValueError(f"model.kind {self.model.kind} has no DEL to learn: leave train.delete_tokens out")
        if self.decode.delete_tokens and not self.train.delete_tokens:
            raise ValueError("decode.delete_tokens is for models that were trained with train.delete_tokens, e.g. 0.2")
        if max(self.train.segment_choices) > self.model.max_segments:
            raise ValueError(
                f"train.segments asks for K = {max(self.train.segment_choices)} "
                f"but model.max_segments is {self.model.max_segments}"
            )
        return self


PAPER_PRESETS = ("iwslt16", "wmt14", "wmt16")
PRESETS: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(
    Path(__file__).with_name("presets.yaml").read_text(encoding="utf-8")
)


def load_config(
    path: Path | None = None,
    preset: str | None = None,
    overrides: list[str] | None = None,
    base: dict[str, Any] | None = None,
) -> Config:
    """Merge `base`, preset, YAML file and `section.key=value` overrides; later ones win.

    The file may name its preset (`preset: small`); the argument wins over it.
    """
    values = _read_config(path) if path else {}
    name = preset or values.get("preset")
    merged = _merge(_merge(base or {}, _preset(name)), values) | {"preset": name}
    return parse_config(_merge(merged, parse_overrides(overrides or [])))


def preset_name(path: Path | None, preset: str | None) -> str | None:
    """Name the preset that `load_config` starts from, if any."""
    return preset or (_read_config(path).get("preset") if path else None)


def parse_config(values: dict[str, Any]) -> Config:
    """Check a plain dictionary; errors name the key and the fix."""
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise UserError("\n".join(_explain(dict(item)) for item in error.errors())) from None


def to_yaml(config: Config) -> str:
    """Write the effective configuration as YAML."""
    return yaml.safe_dump(config.model_dump(), sort_keys=False, allow_unicode=True)


def read_yaml(path: Path, what: str) -> Any:
    """Read a YAML file; `what` names it for the error message; an empty one has no keys."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such {what}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML: {error}") from None
    return {} if values is None else values


def _read_config(path: Path) -> dict[str, Any]:
    values = read_yaml(path, "config file")
    if not isinstance(values, dict):
        raise UserError(f"{path}: expected sections such as 'train:' with keys below them")
    if "format" in values:  # a model's config.json
        values = {key: value for key, value in values.items() if key not in ("format", "version", "facts")}
    return values


def _preset(name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    if name not in PRESETS:
        raise UserError(f"preset {name!r} does not exist; there are: {', '.join(sorted(PRESETS))}")
    return dict(PRESETS[name])


def _merge(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in top.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def parse_overrides(texts: Iterable[str]) -> dict[str, Any]:
    """Read `section.key=value` settings into sections; later ones win.

    >>> parse_overrides(["decode.begin_at=word", "decode.tolerance=0.5"])
    {'decode': {'begin_at': 'word', 'tolerance': 0.5}}
    """
    return reduce(_merge, map(_parse_override, texts), {})


def _parse_override(text: str) -> dict[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or key.count(".") != 1:
        raise UserError(f"--set {text}: write section.key=value, e.g. model.dropout=0.3")
    section, name = key.split(".")
    try:
        return {section: {name: yaml.safe_load(value)}}
    except yaml.YAMLError:
        raise UserError(f"--set {text}: cannot read {value!r}; write a value as YAML has it, e.g. [1, 2]") from None


def _explain(item: dict[str, Any]) -> str:
    where = ".".join(str(part) for part in item["loc"])
    if item["type"] != "extra_forbidden":
        message = str(item["msg"]).removeprefix("Value error, ")
        return f"{where}: {message} (got {item['input']!r})" if where and "value_error" not in item["type"] else message
    *parents, wrong = item["loc"]
    section: type[BaseModel] = Config
    for parent in parents:
        annotation = section.model_fields[str(parent)].annotation
        assert isinstance(annotation, type)
        section = annotation
    fix = did_you_mean(wrong, section.model_fields, f"there are: {', '.join(section.model_fields)}")
    return f"{where}: no such key; {fix}"


def did_you_mean(wrong: object, known: Iterable[str], otherwise: str) -> str:
    """Suggest the nearest of what is known, or say something else."""
    near = difflib.get_close_matches(str(wrong), list(known), n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else otherwise


def check_device(name: str) -> None:
    """Refuse what is no device, before anything is loaded.

    >>> check_device("auto"), check_device("cuda:1")
    (None, None)
    """
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise UserError(f"device {name}: there is no such device; use cpu, cuda or auto")
