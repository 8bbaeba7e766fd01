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
    "engines.native.": ["torch", "onnxruntime", "recoversat.training"],
    "text.": ["torch", "recoversat.training", "recoversat.model."],
    "serve.": ["torch", "recoversat.training"],
    "measuring.reports.": [
        "torch",
        "recoversat.translator",
        "recoversat.measuring.quality",
        "recoversat.measuring.speed",
    ],
    "measuring.peers.": ["torch", "recoversat.training", "recoversat.model.", "recoversat.translator"],
    "serve.http.": ["recoversat.engines", "recoversat.translator", "recoversat.serve.process.worker"],
    "cluster.": ["torch", "recoversat.training", "recoversat.model."],
    "measuring.speed.": ["torch", "recoversat.training", "recoversat.model."],
    "measuring.own": ["torch", "recoversat.training", "recoversat.model."],
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


@pytest.mark.parametrize("module", ["recoversat.cli", "recoversat.translator", "recoversat.pipeline.translate_command"])
def test_torch_is_not_imported(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_who_never_awaits_does_not_import_asyncio() -> None:
    code = "import sys, recoversat.translator; sys.exit('asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_one_process_does_not_import_what_shares_work_among_several() -> None:
    code = "import sys, recoversat.pipeline.translate_command; sys.exit('recoversat.cluster.run' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def outside_engines() -> list[Path]:
    return [path for path in SRC.rglob("*.py") if path.relative_to(SRC).parts[0] not in ("engines", "decoding")]


def test_nobody_outside_tells_engines_apart() -> None:
    for path in outside_engines():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                asked = [name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)]
                assert not [name for name in asked if "Engine" in name], f"{path}, line {node.lineno}"


def test_nobody_outside_wires_the_loops_of_decoding() -> None:
    loops = ("decode_segments", "beam_search", "decode_once", "decode_lengths")
    for path in outside_engines():
        wired = [name for name in imports(path) if name.endswith(loops)]
        assert not wired, f"{path}: use the decode and search of an engine instead of {wired}"


def test_a_run_in_one_process_needs_neither_ray_nor_pyarrow_nor_torch() -> None:
    code = "import sys, recoversat.cluster.run; sys.exit(bool({'ray', 'pyarrow', 'torch'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
