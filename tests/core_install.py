"""Install the core alone into a fresh environment and translate there with an exported model: `make test-core`.

Not part of `make test`: it builds an environment and downloads packages. Exits with an error where anything differs.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))


def run(*command: object, expect: int = 0, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command outside the checkout, so that only what is installed can be imported."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command],
        input=stdin,
        capture_output=True,
        text=True,
        cwd="/",
        env=environment,
        check=False,
    )
    assert done.returncode == expect, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def install_core(folder: Path) -> Path:
    """Make an environment with the package and its dependencies, no extras; return its folder of programs."""
    source = folder / "source"  # a copy: building leaves files behind
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so"))
    shutil.copytree(ROOT / "csrc", source / "csrc")
    for name in ("pyproject.toml", "README.md", "LICENSE", "constraints.txt"):
        shutil.copy(ROOT / name, source)
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", "-c", source / "constraints.txt", source)
    return programs


def check_no_torch(python: Path) -> None:
    """Make sure that the environment proves something."""
    for name in ("torch", "onnx", "onnxruntime"):
        assert f"No module named '{name}'" in run(python, "-c", f"import {name}", expect=1).stderr
    print(run(python, "-m", "pip", "list", "--format=freeze").stdout)


def check_translation(here: Path, core: Path, folder: Path) -> None:
    """Compare what the engine in C++ writes here and there."""
    from tests.system.tiny_model import write_sentences, write_tiny_model

    model, exported = write_tiny_model(folder / "model"), folder / "exported"
    text = "\n".join(write_sentences(folder / "text", 50)) + "\n"
    print(run(here, "export", model, exported).stderr)
    for k in (1, 2, 4):
        ask = ["translate", "--model", exported, "--segments", k, "--max-memory", "1M", "--threads", 1]
        wanted, got = (run(program, *ask, stdin=text).stdout for program in (here, core))
        assert got == wanted, f"K = {k}: the core writes something else"
        print(f"K = {k}: {len(got.splitlines())} lines the same as here, in int8")
    refused = run(core, "translate", "--model", exported, "--compute-type", "float32", expect=2, stdin="w1\n").stderr
    assert "pip install 'recoversat[onnx]'" in refused, refused
    refused = run(core, "translate", "--model", model, expect=2, stdin="w1\n").stderr
    assert "pip install 'recoversat[train]'" in refused, refused
    refused = run(core, "export", model, folder / "again", expect=2).stderr
    assert "is missing: pip install 'recoversat[train]'" in refused, refused


def main() -> None:
    """Build the environment, translate in it, remove it."""
    with tempfile.TemporaryDirectory(prefix="recoversat-core.") as name:
        programs = install_core(Path(name))
        check_no_torch(programs / "python")
        check_translation(Path(sys.executable).with_name("recoversat"), programs / "recoversat", Path(name))
    print("the core translates without torch")


if __name__ == "__main__":
    main()
