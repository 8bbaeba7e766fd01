"""Pages of the site that are made when it is built: every command from the program itself, and the changelog."""

from pathlib import Path

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from typer.cli import get_docs_for_click

from recoversat.cli import app


def commands_page() -> str:
    """Describe every command with all its options, as --help does."""
    command = typer.main.get_command(app)
    return get_docs_for_click(obj=command, ctx=typer.Context(command), name="recoversat", title="Commands")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of docs/."""
    changes = (Path(config.config_file_path).parent / "CHANGELOG.md").read_text(encoding="utf-8")
    for name, text in (("commands.md", commands_page()), ("changes.md", changes)):
        files.append(File.generated(config, name, content=text))
    return files
