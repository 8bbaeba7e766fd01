"""The verb that times systems: bench."""

from pathlib import Path
from typing import Annotated

import typer

from recoversat.cli.app import NoRepairs, app
from recoversat.errors import UserError


@app.command(
    epilog="Example: `recoversat bench --system at=exported:segments=1 --system k10=exported:segments=10 "
    "--system peer=ct2:beam=4 --src test.en --ref test.de --out bench`, or `recoversat bench --untrained wmt14 --out b`"
)
def bench(
    out: Annotated[Path, typer.Option(help="Folder of table, JSON and plots.")],
    system: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=PATH, ours or CTranslate2's; with :segments=K (or auto), :beam=N, :to=, :compute=, :threads=, "
            ":repairs=none, ..."
        ),
    ] = None,
    src: Annotated[Path | None, typer.Option(help="Sentences to translate.")] = None,
    ref: Annotated[Path | None, typer.Option(help="Their translations: adds BLEU.")] = None,
    untrained: Annotated[
        str | None, typer.Option(help="Instead: untrained models, a preset or d_model=512,...")
    ] = None,
    vocab: Annotated[int, typer.Option(min=16, help="With --untrained: size of the vocabulary.")] = 32_000,
    length: Annotated[int, typer.Option(min=1, help="With --untrained: tokens of every sentence.")] = 25,
    segments: Annotated[list[int] | None, typer.Option(min=2, help="With --untrained: K; 10 without any.")] = None,
    batch: Annotated[list[int] | None, typer.Option(min=1, help="Batch size; 1, 8, 32, 64 without any.")] = None,
    threads: Annotated[list[int] | None, typer.Option(min=1, help="Threads; 1 and all without any.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds in which the systems take turns.")] = 5,
    sentences: Annotated[int | None, typer.Option(min=1, help="Sentences a round; 64, untrained 16.")] = None,
    to: Annotated[str | None, typer.Option(help="Language, where the built-in model is timed.")] = None,
    no_repairs: NoRepairs = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    force: Annotated[bool, typer.Option("--force", help="Replace OUT.")] = False,
) -> None:
    """Time systems in turn on the same sentences, CTranslate2 among them: latency, throughput, memory, ratios."""
    from recoversat.measuring.specs import builtin_systems, parse_system, without_repairs
    from recoversat.measuring.speed.run import Settings, Untrained, bench_text, bench_untrained
    from recoversat.measuring.speed.tables import report_text

    settings = Settings(tuple(batch or (1, 8, 32, 64)), tuple(threads or ()), rounds, sentences, device)
    if untrained:
        if system or src or ref:
            raise UserError("--untrained makes its own models and sentences: leave out --system, --src and --ref")
        shape = Untrained(untrained, vocab, length, tuple(segments or (10,)))
        result = bench_untrained(shape, settings, out, force=force)
    elif src:
        systems = [parse_system(text) for text in system or ()] or builtin_systems(to)
        systems = without_repairs(systems) if no_repairs else systems
        result = bench_text(systems, src, ref, settings, out, force=force)
    else:
        raise UserError(
            "nothing to time: give --src FILE and --system NAME=MODEL (several times, or none for the built-in model), "
            "or --untrained wmt14 for models of a size that were never trained"
        )
    typer.echo(report_text(result))
    typer.echo(f"written to {out}", err=True)
