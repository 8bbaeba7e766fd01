"""The documentation: its site builds, fetches nothing, leads nowhere wrong; its examples run, its commands exist."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer

from recoversat.cli import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
GUIDE = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
VERBS = typer.main.get_command(app).commands
TINY = (
    "train.steps=60 train.validate_every=30 train.warmup=20 train.learning_rate=5e-3 train.batch_tokens=512 "
    "train.workers=0 data.vocab_size=400 train.tensorboard=false model.d_model=48 model.d_hidden=64 model.n_heads=4 "
    "model.encoder_layers=1 model.decoder_layers=1"
)


class Addresses(HTMLParser):
    """What a page loads, where it leads, and which places it has."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a":
            self.leads += [found["href"]] if "href" in found else []
        elif tag != "link" or found.get("rel") != "canonical":
            self.loads += [found[name] for name in ("src", "href", "srcset") if name in found]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it as `make docs` does, where no server can be reached."""
    out = tmp_path_factory.mktemp("site")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | nowhere | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_every_page_of_the_site_loads_only_what_lies_beside_it(site: Path) -> None:
    pages = [path for path in site.glob("*.html") if path.name != "404.html"]
    assert len(pages) >= 17
    for page in pages:
        for address in Addresses(page).loads:
            path = address.partition("?")[0].partition("#")[0]
            assert "//" not in address, f"{page.name} loads {address}"
            assert not path or (site / path).exists(), f"{page.name} loads {address}"
    sheets = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", sheets)


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    pages = {path.name: Addresses(path) for path in site.glob("*.html") if path.name != "404.html"}
    for name, page in pages.items():
        for address in page.leads:
            if "//" in address:
                continue
            path, _, place = address.partition("#")
            target = path.removeprefix("./") or name
            assert (site / (target if target != "." else "index.html")).exists(), f"{name} leads to {address}"
            if place and target in pages and not place.startswith("__"):
                assert place in pages[target].places, f"{name} leads to {address}"


def test_the_site_has_every_command_the_settings_and_the_docstrings(site: Path) -> None:
    commands = (site / "commands.html").read_text(encoding="utf-8")
    for name, command in VERBS.items():
        assert f"recoversat {name}" in commands
        assert all(option in commands for param in command.params for option in param.opts if option.startswith("--"))
    assert "train.repeat_prob" in (site / "settings.html").read_text(encoding="utf-8")
    python = Addresses(site / "reference.html").places
    assert {"recoversat.translator.Translator.translate", "recoversat.training.loop.train"} <= python


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_to_files(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for address in re.findall(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"", text):
        path = "".join(address).partition("#")[0]
        if path and "://" not in path:
            assert (page.parent / path).exists(), f"{page.name}: {path}"


def commands_in(text: str) -> list[list[str]]:
    """Find the commands a page shows: words from `recoversat` to the end of the line or of the code."""
    text = text.replace("\\\n", " ")
    shown = re.findall(r"(?:^ {4,}|^\$ |\| |`|^)recoversat ([a-z][^`|\n]*)", text, flags=re.MULTILINE)
    return [re.split(r"\s+", re.sub(r"\s#.*|[<>;].*", "", line).strip()) for line in shown]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "src/recoversat/assets/ende/README.md"], ids=lambda page: page.name)
def test_commands_of_a_page_have_options_that_exist(page: Path) -> None:
    for verb, *words in commands_in(page.read_text(encoding="utf-8")):
        if verb not in VERBS:
            continue  # prose
        known = {option for param in VERBS[verb].params for option in (*param.opts, *param.secondary_opts)}
        wrong = [word for word in words if re.match(r"--\w", word) and word.partition("=")[0] not in known | {"--help"}]
        assert not wrong, f"{page.name}: recoversat {verb} has no {wrong}"


def test_commands_are_found_in_pages() -> None:
    found = commands_in("    recoversat fit --src a \\\n  --tgt b  # so\n`recoversat translate --from en < x`\n")
    assert found == [["fit", "--src", "a", "--tgt", "b"], ["translate", "--from", "en"]]
    assert sum(len(commands_in(page.read_text(encoding="utf-8"))) for page in PAGES) > 40


@pytest.fixture
def first_hour(tmp_path: Path) -> dict[str, str]:
    """A folder with some text, and a `recoversat` whose trainings are tiny."""
    for side in ("en", "de"):
        lines = (ROOT / "tests" / "data" / f"tatoeba.{side}").read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / f"train.{side}").write_text("".join(lines[:60]), encoding="utf-8")
    settings = " ".join(f"--set {one}" for one in TINY.split())
    small = settings.replace("--set train.steps=60 --set train.validate_every=30 ", "")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "recoversat").write_text(
        f'#!/bin/sh\ncase "$1" in fit) more="{settings}";; train) more="{small}";; *) more="";; esac\n'
        f'exec {sys.executable} -m recoversat "$@" $more\n'
    )
    (tmp_path / "bin" / "recoversat").chmod(0o755)
    return os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}


def test_the_first_hour_is_as_the_guide_tells_it(tmp_path: Path, first_hour: dict[str, str]) -> None:
    blocks = re.findall(r"^```(sh|text|python)\n(.*?)^```", GUIDE, flags=re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks].count("sh") >= 8
    printed = ""
    for kind, text in blocks:
        if kind == "text":
            assert printed == text
            continue
        command = ["bash", "-e", "-c", text] if kind == "sh" else [sys.executable, "-c", text]
        done = subprocess.run(command, cwd=tmp_path, env=first_hour, capture_output=True, text=True, encoding="utf-8")
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        printed = done.stdout
    assert (tmp_path / "letter.de").read_text(encoding="utf-8").strip()
    assert "<b>" in (tmp_path / "seite.html").read_text(encoding="utf-8")
    assert (tmp_path / "model" / "report" / "report.html").is_file()
    assert (tmp_path / "run" / "checkpoints" / "step-00000030").is_dir()


def test_the_training_of_the_python_page_trains(tmp_path: Path, first_hour: dict[str, str]) -> None:
    (example,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs/reference.md").read_text(encoding="utf-8"), flags=re.DOTALL
    )
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, env=first_hour, capture_output=True, text=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "20\n"
