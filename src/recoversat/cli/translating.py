"""Verbs that use models: translate, score, export, serve."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from recoversat.cli.app import Device, From, Model, Segments, To, app, optional_pairs, parse_bytes
from recoversat.cli.scaling import (
    Cluster,
    PerWorkerText,
    ShardSize,
    ShardText,
    Workers,
    crew_of,
    exit_for_records,
    translate_shards,
)
from recoversat.errors import UserError
from recoversat.text.documents import FORMATS

_FORMATS = "; ".join(["lines: one each", *(f"{name}: {known.words}" for name, known in FORMATS.items())])


class ExportFormat(StrEnum):
    """What `export` writes."""

    onnx = "onnx"
    ctranslate2 = "ctranslate2"


Files = Annotated[list[Path] | None, typer.Argument(help="Text files; standard input without any.", show_default=False)]
FromOrAuto = Annotated[
    str | None, typer.Option("--from", help="Language of the text; auto (the default): what it looks like.")
]
Out = Annotated[
    str | None, typer.Option(help="File to write; FOLDER/: one for each input.", metavar="PATH", show_default=False)
]
BestOf = Annotated[
    int | None, typer.Option(min=1, help="Write with so many K and keep the likeliest.", show_default=False)
]
Quality = Annotated[
    str | None, typer.Option(help="fast; balanced: best of 3; best: with doubt; exact.", show_default=False)
]
Exact = Annotated[
    bool, typer.Option("--exact", help="The words of K = 1, drafted in segments and verified; for --batch-size 1.")
]
BatchSize = Annotated[int, typer.Option(min=1, help="Sentences translated together.")]
LineBuffered = Annotated[
    bool, typer.Option("--line-buffered", help="Answer each line at once, for programs that wait.")
]
Jsonl = Annotated[bool, typer.Option("--jsonl", help='Lines are {"text": ...}; "translation" is added.')]
Beam = Annotated[int, typer.Option(min=1, help="Beam size, where K is 1; 1 = greedy.")]
Show = Annotated[str | None, typer.Option(help="segments: number them, mark DEL.", show_default=False)]
Trace = Annotated[Path | None, typer.Option(help="Write each decoding step here, as JSON lines.", show_default=False)]
ForceWords = Annotated[
    list[str] | None,
    typer.Option("--force", help="SEGMENT:POSITION=WORDS must stand there, e.g. '6:1=the'.", show_default=False),
]
Format = Annotated[
    str | None,
    typer.Option("--format", metavar="FORMAT", help=f"{_FORMATS}. By extension, or else lines.", show_default=False),
]
GlossaryFile = Annotated[
    Path | None,
    typer.Option("--glossary", help="Terms to translate as wished, as TSV (docs/glossary.md).", show_default=False),
]
MinConfidence = Annotated[
    float | None,
    typer.Option(
        min=0, max=1, help="Leave lines below it untranslated; in JSON they are doubtful.", show_default=False
    ),
]
PaperRepairs = Annotated[
    bool, typer.Option("--no-repairs", help="As the paper decodes: nothing joined, cut or written again.")
]
NoShortlist = Annotated[
    bool, typer.Option("--no-shortlist", help="Choose from the whole vocabulary, whatever the model's shortlist.")
]
Teacher = Annotated[
    Path | None, typer.Option(help="Of a one-step model: teacher that judges its candidates.", show_default=False)
]
Lengths = Annotated[int, typer.Option(min=1, help="With --teacher: candidates of different length.")]
ComputeTypeName = Annotated[str, typer.Option(help="int8, float32; on a GPU float16, bfloat16, float32.")]
Threads = Annotated[int, typer.Option(min=0, help="Processor cores used; 0 = all.")]
MaxMemory = Annotated[
    Any,
    typer.Option(
        parser=parse_bytes,
        metavar="SIZE",
        help="Of an exported model: bound beside weights, e.g. 500M.",
        show_default=False,
    ),
]


@app.command(epilog="Example: `echo 'Two dogs run.' | recoversat translate --from en --to de --show segments`")
def translate(
    files: Files = None,
    model: Model = None,
    source: FromOrAuto = None,
    target: To = None,
    out: Out = None,
    segments: Segments = None,
    best_of: BestOf = None,
    quality: Quality = None,
    exact: Exact = False,
    batch_size: BatchSize = 32,
    line_buffered: LineBuffered = False,
    jsonl: Jsonl = False,
    beam: Beam = 1,
    show: Show = None,
    trace: Trace = None,
    force_words: ForceWords = None,
    glossary: GlossaryFile = None,
    min_confidence: MinConfidence = None,
    format_: Format = None,
    no_repairs: PaperRepairs = False,
    no_shortlist: NoShortlist = False,
    teacher: Teacher = None,
    lengths: Lengths = 9,
    device: Device = "auto",
    compute_type: ComputeTypeName = "default",
    threads: Threads = 0,
    max_memory: MaxMemory = None,
    workers: Workers = None,
    cluster: Cluster = None,
    per_worker: PerWorkerText = None,
    shard: ShardText = None,
    shard_size: ShardSize = 2048,
) -> None:
    """Translate text line by line, one line out for each line in, or files in their own formats."""
    from recoversat.pipeline.translate_command import TranslateCommand
    from recoversat.pipeline.translate_documents import choose_format

    format_, jsonl = choose_format(format_, files or [], jsonl)
    asked = TranslateCommand(
        files=files or [], out=out, model=model, source=source, target=target, segments=segments, best_of=best_of,
        quality=quality, exact=exact, batch_size=batch_size, at_once=line_buffered, jsonl=jsonl, beam=beam, show=show,
        trace=trace, force=tuple(force_words or ()), glossary=glossary, min_confidence=min_confidence, format=format_,
        no_repairs=no_repairs, no_shortlist=no_shortlist, teacher=teacher, lengths=lengths, device=device,
        compute_type=compute_type, threads=threads, max_memory=max_memory,  # type: ignore[arg-type]
    )  # fmt: skip
    if workers or cluster or shard:
        asked.check_shared()
        translate_shards(asked, crew_of(workers, cluster, per_worker, shard, device, threads), shard_size)
        return
    try:
        errors = asked.at_terminal().run()
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    exit_for_records(errors)


@app.command(epilog="Example: `recoversat score --from en --to de --src test.en --tgt test.de`")
def score(
    src: Annotated[Path, typer.Option(help="Source text.")],
    tgt: Annotated[Path, typer.Option(help="Target text, aligned line by line.")],
    model: Model = None,
    source: From = None,
    target: To = None,
    segments: Annotated[int, typer.Option(min=1, help="Score as so many equal segments.")] = 1,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Each token's log-probability too.")] = False,
    device: Device = "auto",
) -> None:
    """Print the log-probability of each given translation."""
    from recoversat.pipeline.score_files import score_lines

    for line in score_lines(
        model, src, tgt, segments=segments, jsonl=jsonl, device=device, source=source, target=target
    ):
        typer.echo(line)


@app.command(epilog="Example: `recoversat export run exported --corpus corpus`")
def export(
    model: Annotated[Path, typer.Argument(help="Model folder or training run.")],
    out: Annotated[Path, typer.Argument(help="Model folder to write; translates without torch.")],
    precision: Annotated[list[str] | None, typer.Option(help="int8, fp32; both without any.")] = None,
    corpus: Annotated[Path | None, typer.Option(help="Corpus whose validation text shows what int8 costs.")] = None,
    valid_src: Annotated[Path | None, typer.Option(help="Instead: validation source.")] = None,
    valid_tgt: Annotated[Path | None, typer.Option(help="Instead: validation target.")] = None,
    shortlist: Annotated[
        bool, typer.Option("--shortlist", help="Make a shortlist from the corpus: faster, the same words.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT; keep it whatever the checks say.")] = False,
    format_: Annotated[
        ExportFormat, typer.Option("--format", help="onnx; ctranslate2: a teacher for that engine, to compare with.")
    ] = ExportFormat.onnx,
) -> None:
    """Write a model for fast translation on CPUs (ONNX, int8 and fp32), checked against the original."""
    try:
        from recoversat.export import folder as exporting
    except ImportError as error:
        raise UserError(f"{error.name} is missing: pip install 'recoversat[train]'") from None
    valid = exporting.validation_text(model, corpus, optional_pairs(valid_src, valid_tgt, "--valid"))
    precisions = exporting.precisions_of(precision)
    if shortlist and (not corpus or format_ is not ExportFormat.onnx):
        raise UserError("--shortlist is made from --corpus, for --format onnx; later: recoversat shortlist OUT")
    if format_ is ExportFormat.ctranslate2:
        from recoversat.export.ctranslate2 import export_ctranslate2

        typer.echo(export_ctranslate2(model, out, precisions if precision else (), valid, force=force), err=True)
        return
    pairs_from = corpus if shortlist else None
    report = exporting.export_folder(model, out, precisions, valid, force=force, pairs_from=pairs_from)
    typer.echo(report.as_text(), err=True)


@app.command(epilog="Example: `recoversat shortlist exported --src train.en --tgt train.de`")
def shortlist(
    model: Annotated[Path, typer.Argument(help="Folder written by `export`; gets the list.")],
    corpus: Annotated[Path | None, typer.Option(help="Corpus it was trained on, best its distilled one.")] = None,
    src: Annotated[Path | None, typer.Option(help="Instead: source text, one sentence a line.")] = None,
    tgt: Annotated[Path | None, typer.Option(help="And its translations, best the model's own.")] = None,
    likeliest: Annotated[int, typer.Option(min=1, help="Pieces that each source piece may become.")] = 100,
    frequent: Annotated[int, typer.Option(min=1, help="Most frequent pieces that are in every list.")] = 1000,
) -> None:
    """Give an exported model a shortlist: steps choose among pieces that a source can become, which is faster."""
    try:
        from recoversat.export.shortlist import add_shortlist, pairs_of
    except ImportError as error:
        raise UserError(f"{error.name} is missing: pip install 'recoversat[train]'") from None
    pairs = pairs_of(model, corpus, optional_pairs(src, tgt, "-"))
    typer.echo(add_shortlist(model, pairs, likeliest, frequent).as_text(), err=True)


@app.command(epilog="Example: `recoversat serve --model en-de=run --port 5000 --workers 2`")
def serve(
    model: Annotated[
        list[str] | None,
        typer.Option(help="en-de=FOLDER, or FOLDER; several times for several pairs.", show_default=False),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 5000,
    workers: Annotated[int, typer.Option(help="Processes; each loads the models.", min=1)] = 1,
    threads: Annotated[int, typer.Option(help="Processor cores a worker decodes with.", min=1)] = 1,
    max_memory: Annotated[
        Any, typer.Option(parser=parse_bytes, metavar="SIZE", help="For all workers, e.g. 2G.", show_default=False)
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Texts translated together; 1 = each alone.", min=1)] = 32,
    batch_window: Annotated[float, typer.Option(help="Milliseconds a request waits for company.", min=0)] = 4.0,
    queue_size: Annotated[int, typer.Option(help="Texts waiting before 503.", min=1)] = 512,
    char_limit: Annotated[int, typer.Option(help="Characters a text.", min=1)] = 10_000,
    text_limit: Annotated[int, typer.Option(help="Texts a request.", min=1)] = 100,
    piece_limit: Annotated[
        int, typer.Option(help="Pieces to be written for a text, alternatives included.", min=1)
    ] = 20_000,
    file_limit: Annotated[int, typer.Option(help="Bytes of a file; 0 = no files.", min=0)] = 5_000_000,
    file_char_limit: Annotated[int, typer.Option(help="Characters of a file.", min=1)] = 100_000,
    timeout: Annotated[float, typer.Option(help="Seconds after which a request is given up.", min=0.001)] = 30.0,
    hang_timeout: Annotated[
        float, typer.Option(help="Seconds without a step after which a worker is killed.", min=0.1)
    ] = 20.0,
    max_connections: Annotated[int, typer.Option(help="Open at a time; half of them for one address.", min=1)] = 1000,
    api_keys: Annotated[Path | None, typer.Option(help="File of API keys, one a line.", show_default=False)] = None,
    rate_limit: Annotated[
        int | None, typer.Option(help="Requests a minute for each key or address.", min=1, show_default=False)
    ] = None,
    trusted_proxy: Annotated[
        str | None, typer.Option(help="Proxy whose X-Forwarded-For is believed.", show_default=False)
    ] = None,
    metrics_token: Annotated[
        str | None, typer.Option(help="Who asks for /metrics must send it.", show_default=False)
    ] = None,
    suggestions: Annotated[
        Path | None, typer.Option(help="Take /suggest; write JSON lines here.", show_default=False)
    ] = None,
    glossary: Annotated[
        list[str] | None,
        typer.Option(help="en-de=FILE, or FILE for all pairs: terms to translate as wished.", show_default=False),
    ] = None,
    log_text: Annotated[bool, typer.Option("--log-text", help="Write users' texts to the log.")] = False,
    device: Device = "cpu",
    compute_type: ComputeTypeName = "default",
) -> None:
    """Serve translations over HTTP, as LibreTranslate does, with a page that shows the decoding."""
    from recoversat.serve.settings import ServeSettings

    settings = ServeSettings(
        models=tuple(model or ()), host=host, port=port, workers=workers, threads=threads, device=device,
        compute_type=compute_type, max_memory=max_memory, batch_size=batch_size, batch_window=batch_window / 1000,
        queue_size=queue_size, char_limit=char_limit, text_limit=text_limit, piece_limit=piece_limit, timeout=timeout,
        file_limit=file_limit, file_char_limit=file_char_limit,
        hang_timeout=hang_timeout, max_connections=max_connections, api_keys=api_keys, rate_limit=rate_limit,
        trusted_proxy=trusted_proxy, metrics_token=metrics_token, suggestions=suggestions, log_text=log_text,
        glossaries=tuple(glossary or ()),
    )  # fmt: skip
    try:
        from recoversat.serve.process.server import serve
    except ImportError as error:
        raise UserError(f"{error.name} is missing: pip install 'recoversat[serve]'") from None
    serve(settings)
