"""Who may import whom, and that the translate path never needs torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "recoversat"

# module prefix -> what it must not import, wherever the import stands
FORBIDDEN = {
    "vocab": ["torch", "numpy", "recoversat"],
    "config": ["torch", "recoversat.model.", "recoversat.training"],
    "segments": ["torch", "recoversat.model.", "recoversat.data", "recoversat.decoding"],
    "decoding.": ["torch", "recoversat.model.", "recoversat.text", "recoversat.engines"],
    "model.": ["recoversat.data", "recoversat.decoding", "recoversat.training", "recoversat.serve"],
    "training.": ["recoversat.decoding", "recoversat.measuring", "recoversat.serve", "recoversat.translator"],
    "translator": ["recoversat.training"],
    "engines.onnx.": ["torch", "recoversat.training"],
    "text.": ["torch", "recoversat.training", "recoversat.model."],
    "serve.": ["torch", "recoversat.training"],
    "cluster.": ["torch", "recoversat.training", "recoversat.model."],
    "measuring.speed.": ["torch", "recoversat.training", "recoversat.model."],
}


def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


@pytest.mark.parametrize("prefix", sorted(FORBIDDEN))
def test_the_table_of_imports_holds(prefix: str) -> None:
    modules = {str(path.relative_to(SRC).with_suffix("")).replace("/", "."): path for path in SRC.rglob("*.py")}
    whole_package = prefix.endswith(".")
    mine = {
        name: path for name, path in modules.items() if name == prefix or (whole_package and name.startswith(prefix))
    }
    assert mine
    for name, path in mine.items():
        wrong = [i for i in imports(path) for bad in FORBIDDEN[prefix] if f"{i}.".startswith(f"{bad.rstrip('.')}.")]
        assert not wrong, f"{name} must not import {wrong}"


@pytest.mark.parametrize("module", ["recoversat.cli", "recoversat.translator", "recoversat.pipeline.translate_files"])
def test_torch_is_not_imported(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_run_in_one_process_needs_neither_ray_nor_pyarrow_nor_torch() -> None:
    code = "import sys, recoversat.cluster.run; sys.exit(bool({'ray', 'pyarrow', 'torch'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
