"""Options that several verbs have, and those of `translate`: each declared once, and which of them go together."""

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from recoversat.cluster.crew import Crew
from recoversat.errors import UserError
from recoversat.measuring.reports.table import TableFormat
from recoversat.text.documents import FORMATS, LINES, choose_format

ConfigFile = Annotated[Path | None, Option("--config", help="YAML file of settings.")]
Preset = Annotated[str | None, Option(help="Start from: iwslt16, wmt14, wmt16, small, tiny, deep-shallow.")]
Set = Annotated[list[str] | None, Option("--set", help="section.key=value; wins over --config.")]
Device = Annotated[str, Option(help="cpu, cuda or auto.")]
ComputeTypeName = Annotated[
    str, Option(help="int8, int8_onnx (ONNX Runtime), float32; on a GPU float16, bfloat16, float32.")
]
Model = Annotated[Path | None, Option(help="Model folder or training run; a built-in one by default.")]
From = Annotated[str | None, Option("--from", help="Language of the source text.")]
To = Annotated[str | None, Option("--to", help="Language of the translation.")]
NoRepairs = Annotated[bool, Option("--no-repairs", help="Decode as the paper does: nothing is repaired.")]
Force = Annotated[bool, Option("--force", help="Replace what is already there.")]


def parse_segments(text: str) -> int | Literal["auto"]:
    from recoversat.inference.request import read_segments

    try:
        return read_segments(text)
    except UserError as error:
        raise BadParameter(str(error)) from None


def parse_bytes(text: str) -> int:
    """Read a size in bytes, as pydantic understands it: 512M, 2GB, 1.5GiB."""
    from pydantic import ByteSize, TypeAdapter, ValidationError

    try:
        size = int(TypeAdapter(ByteSize).validate_python(text))
    except ValidationError:
        size = 0
    if size < 1:
        raise BadParameter(f"{text!r} is no size; write e.g. 512M or 2G")
    return size


Segments = Annotated[
    Any,
    Option(
        "--segments", parser=parse_segments, metavar="K",
        help="K, or auto: by length. The model's own by default.",
    ),
]  # fmt: skip
Workers = Annotated[int | None, Option(min=1, help="Processes that share the work; --out is a folder then.")]
Cluster = Annotated[str | None, Option(help="ray: here; ray=ADDRESS: a cluster.")]
PerWorkerText = Annotated[str | None, Option("--per-worker", help="cpus=2, gpus=1 or both; a core by default.")]
ShardText = Annotated[str | None, Option("--shard", help="i/n: do every n-th shard only; `merge` joins.")]
InitDecoder = Annotated[bool, Option("--init-decoder", help="Start from the teacher's decoder too.")]
Latency = Annotated[int, Option(min=0, help="Time so many sentences at batch 1.")]
BatchSize = Annotated[int, Option(min=1, help="Sentences translated together.")]
Form = Annotated[TableFormat, Option("--format", help="Print tables as Markdown, or as LaTeX with booktabs.")]

_WORDS = "; ".join(["lines: one each", *(f"{name}: {known.words}" for name, known in FORMATS.items())])
_From = Option("--from", help="Language of the text; auto (the default): what it looks like.")
_Exact = Option("--exact", help="The words of K = 1; with --segments or on a GPU drafted and verified.")
_AtOnce = Option("--line-buffered", help="Answer each line at once, for programs that wait.")
_Force = Option("--force", help="SEGMENT:POSITION=WORDS must stand there, e.g. '6:1=the'.")
_Least = Option(min=0, max=1, help="Leave lines below it untranslated; in JSON they are doubtful.")
_NoRepairs = Option("--no-repairs", help="As the paper decodes: nothing joined, cut or written again.")
_NoShortlist = Option("--no-shortlist", help="Choose from the whole vocabulary, whatever the model's shortlist.")
_Decode = Option("--set", help="decode.KEY=VALUE, whatever the model's own (docs/settings.md).")
_Bound = "Of an exported model: bound beside weights, e.g. 500M."

_References = Option("--with-references", help="Keep the corpus' own translations too: each source twice.")
_Tests = Option("--test", help="NAME=SOURCES,REFERENCES; else validation text.")
_Systems = Option("--system", help="NAME=PATH: measure this one too; NAT fills the tables' NAT row.")
_Parts = "Only the teacher's encoder, or its decoder too (default but for the paper's presets)."
_Given = "Distil this model instead of training one: a model folder, e.g. from `import`."
_Size = "With --teacher: shape of the student, a preset; by default the teacher's, and it starts from its weights."
_Timed = (
    "NAME=PATH, ours or CTranslate2's; with :segments=K (or auto), :beam=N, :to=, :compute=, :threads=, "
    ":repairs=none, ..."
)


@dataclass
class TranslateOptions:
    files: Annotated[list[Path], Argument(help="Text files; standard input without any.")] = field(default_factory=list)
    model: Model = None
    source: Annotated[str | None, _From] = None
    target: To = None
    out: Annotated[str | None, Option(help="File to write; FOLDER/: one for each input.", metavar="PATH")] = None
    segments: Segments = None
    quality: Annotated[str | None, Option(help="fast; balanced, best: verified with K = 1; exact: its words.")] = None
    exact: Annotated[bool, _Exact] = False
    batch_size: BatchSize = 32
    at_once: Annotated[bool, _AtOnce] = False
    jsonl: Annotated[bool, Option("--jsonl", help='Lines are {"text": ...}; "translation" is added.')] = False
    beam: Annotated[int, Option(min=1, help="Beam size, where K is 1; 1 = greedy.")] = 1
    show: Annotated[str | None, Option(help="segments: number them, mark DEL.")] = None
    trace: Annotated[Path | None, Option(help="Write each decoding step here, as JSON lines.")] = None
    force: Annotated[list[str], _Force] = field(default_factory=list)
    glossary: Annotated[Path | None, Option(help="Terms to translate as wished, as TSV (docs/glossary.md).")] = None
    min_confidence: Annotated[float | None, _Least] = None
    format: Annotated[str, Option("--format", metavar="FORMAT", help=f"{_WORDS}. By extension, or else lines.")] = ""
    no_repairs: Annotated[bool, _NoRepairs] = False
    no_shortlist: Annotated[bool, _NoShortlist] = False
    settings: Annotated[list[str], _Decode] = field(default_factory=list)
    teacher: Annotated[Path | None, Option(help="Of a one-step model: teacher that judges its candidates.")] = None
    lengths: Annotated[int, Option(min=1, help="With --teacher: candidates of different length.")] = 9
    device: Device = "auto"
    compute_type: ComputeTypeName = "default"
    threads: Annotated[int, Option(min=0, help="Processor cores used; 0 = all.")] = 0
    max_memory: Annotated[Any, Option(parser=parse_bytes, metavar="SIZE", help=_Bound)] = None
    workers: Workers = None
    cluster: Cluster = None
    per_worker: PerWorkerText = None
    shard: ShardText = None
    shard_size: Annotated[int, Option(min=1, help="Of a shared run: lines a shard; a kill loses at most one.")] = 2048

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, before anything is loaded."""
        self.format, self.jsonl = choose_format(self.format, self.files, self.jsonl)
        by_line = self.show or self.trace or self.force or self.jsonl or self.at_once
        if self.format != LINES and (by_line or self.min_confidence is not None):
            without = "--show, --trace, --force, --jsonl, --line-buffered and --min-confidence"
            raise UserError(f"--format {self.format} goes without {without}")
        if self.show not in (None, "segments"):
            raise UserError(f"--show {self.show}: there is only --show segments")
        if self.jsonl and (self.show or self.trace or self.force):
            raise UserError("--jsonl goes without --show, --trace and --force; --trace FILE writes JSON of its own")
        if self.glossary and self.force:
            raise UserError("--glossary goes without --force, which names a place in one division into segments")
        if self.at_once and self.force:
            raise UserError("--line-buffered goes without --force, which looks at all lines together")
        for setting in self.settings:
            if not setting.startswith("decode."):
                raise UserError(f"--set {setting}: only settings of decode can change, e.g. decode.begin_at=word")
        if self.exact and self.quality not in (None, "exact"):
            raise UserError(f"--exact cannot be combined with --quality {self.quality}; leave one of them out")
        if self.is_shared:
            self._check_shared()

    @property
    def together(self) -> int:
        return 1 if self.at_once else self.batch_size

    @property
    def is_shared(self) -> bool:
        """Say whether the work goes to several workers, or is a share of several commands."""
        return bool(self.workers or self.cluster or self.shard)

    def _check_shared(self) -> None:
        """Refuse what several workers cannot do."""
        steers = self.force or self.teacher or self.max_memory or self.quality
        steers = steers or self.no_repairs or self.no_shortlist or self.settings
        shows = self.show or self.trace or self.at_once or self.format != LINES or self.min_confidence is not None
        if steers or self.glossary or shows or self.exact:
            raise UserError(
                "--workers, --cluster and --shard write lines to a folder, and take no options that show or steer"
            )

    def at_terminal(self) -> "TranslateOptions":
        """Answer each line at once where somebody types them, with a word on how that goes."""
        if self.files or not sys.stdin.isatty():
            return self
        together = self.format != LINES or bool(self.force)  # translated when all is there
        hint = "Type text; Ctrl-D ends it and translates" if together else "Type a line and press Enter; Ctrl-D ends"
        print(hint, file=sys.stderr, flush=True)
        return self if together else replace(self, at_once=True)


@dataclass(frozen=True)
class DistillOptions:
    """What a user asks of `distill`; a folder of shards holds the work of one such setting only."""

    teacher: Annotated[Path, Argument(help="Model that writes with K = 1: folder or training run.")]
    corpus: Annotated[Path, Argument(help="Prepared corpus whose training side it translates.")]
    out: Annotated[Path, Option(help="Corpus folder to write.")]
    beam: Annotated[int, Option(min=1, help="Beam size; 1 = greedy.")] = 4
    with_references: Annotated[bool, _References] = False
    shard_size: Annotated[int, Option(min=1, help="Sentences a shard; a kill loses at most one.")] = 10_000
    batch_tokens: Annotated[int, Option(min=1, help="Source tokens translated together.")] = 4096
    device: Device = "auto"
    compute_type: ComputeTypeName = "default"
    workers: Workers = None
    cluster: Cluster = None
    per_worker: PerWorkerText = None
    shard: ShardText = None
    rank: int = 0  # of `world` processes that torchrun has started
    world: int = 1
    quiet: bool = False

    @property
    def crew(self) -> Crew:
        return Crew.of(self.workers, self.cluster, self.per_worker, self.shard, self.device)

    @property
    def shards(self) -> Path:
        """Where finished shards wait for the others."""
        return self.out.with_name(self.out.name + ".shards")


@dataclass(frozen=True)
class SweepOptions:
    """What a user asks of `sweep`; what the file says too gives way to it."""

    file: Annotated[Path, Argument(help="YAML file: a config and what varies over it (docs/evaluation.md).")]
    out: Annotated[Path, Option(help="Folder of all runs and the report; interrupted, it is continued.")]
    corpus: Annotated[Path | None, Option(help="Folder to train on.")] = None
    init_from: Annotated[Path | None, Option(help="Teacher whose encoder and embeddings all runs start from.")] = None
    init_decoder: InitDecoder = False
    at: Annotated[str | None, Option(help="Model that Rep and Mis are relative to.")] = None
    tests: Annotated[list[str], _Tests] = field(default_factory=list)
    systems: Annotated[list[str], _Systems] = field(default_factory=list)
    jobs: Annotated[int, Option(min=1, help="Trainings at the same time, on one GPU too.")] = 1
    latency: Latency = 0
    batch_size: BatchSize = 32
    preset: Preset = None
    settings: Set = None
    form: Form = TableFormat.MARKDOWN
    device: Device = "auto"


@dataclass(frozen=True)
class FitOptions:
    src: Annotated[Path, Option(help="Source text, one sentence a line (.gz, .xz too).")]
    out: Annotated[Path, Option(help="Folder for everything; an interrupted one is continued.")]
    tgt: Annotated[Path | None, Option(help="Target text, aligned line by line; not needed with --teacher.")] = None
    teacher: Annotated[Path | None, Option(help=_Given)] = None
    size: Annotated[str | None, Option(help=_Size)] = None
    valid_src: Annotated[Path | None, Option(help="Validation source.")] = None
    valid_tgt: Annotated[Path | None, Option(help="Validation target.")] = None
    test_src: Annotated[Path | None, Option(help="Test source, for the report.")] = None
    test_tgt: Annotated[Path | None, Option(help="Test target, for the report.")] = None
    segments: Annotated[int | None, Option(min=1, help="K of the student; 10 where nothing says otherwise.")] = None
    config: ConfigFile = None
    preset: Preset = None
    settings: Set = None
    teacher_set: Annotated[list[str] | None, Option(help="section.key=value for the teacher alone.")] = None
    encoder_only: Annotated[bool | None, Option("--encoder-only/--init-decoder", help=_Parts)] = None
    device: Device = "auto"
    force: Force = False
    dry_run: Annotated[bool, Option("--dry-run", help="Print the plan, refuse what could not work, and stop.")] = False


@dataclass(frozen=True)
class BenchOptions:
    out: Annotated[Path, Option(help="Folder of table, JSON and plots.")]
    systems: Annotated[list[str], Option("--system", help=_Timed)] = field(default_factory=list)
    src: Annotated[Path | None, Option(help="Sentences to translate.")] = None
    ref: Annotated[Path | None, Option(help="Their translations: adds BLEU.")] = None
    untrained: Annotated[str | None, Option(help="Instead: untrained models, a preset or d_model=512,...")] = None
    vocab: Annotated[int, Option(min=16, help="With --untrained: size of the vocabulary.")] = 32_000
    length: Annotated[int, Option(min=1, help="With --untrained: tokens of every sentence.")] = 25
    segments: Annotated[list[int] | None, Option(min=2, help="With --untrained: K; 10 without any.")] = None
    batch: Annotated[list[int] | None, Option(min=1, help="Batch size; 1, 8, 32, 64 without any.")] = None
    threads: Annotated[list[int] | None, Option(min=1, help="Threads; 1 and all without any.")] = None
    rounds: Annotated[int, Option(min=1, help="Rounds in which the systems take turns.")] = 5
    warm_up: Annotated[float, Option(min=0, help="Seconds a system translates untimed before its turn.")] = 0.5
    sentences: Annotated[int | None, Option(min=1, help="Sentences a round; 64, untrained 16.")] = None
    together: Annotated[bool, Option("--together", help="Load all systems at once: sooner; no start times.")] = False
    to: Annotated[str | None, Option(help="Language, where the built-in model is timed.")] = None
    no_repairs: NoRepairs = False
    form: Form = TableFormat.MARKDOWN
    device: Annotated[str, Option(help="cpu or cuda.")] = "cpu"
    force: Force = False

    def __post_init__(self) -> None:
        if self.device not in ("cpu", "cuda"):
            raise UserError(f"--device {self.device}: cpu or cuda")
