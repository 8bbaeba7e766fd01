"""Build native.cpp with the compiler of this machine, when asked to, and open what was built."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import weakref
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from recoversat.errors import UserError
from recoversat.files.storage import atomic_file

SOURCE = Path(__file__).with_name("native.cpp")
# how products are computed: the fastest exact way that runs comes first
KITS = ("avx512-vnni", "avx-vnni", "avx2", "plain")
_OPTIONS = ("-std=c++17", "-O3", "-mavx2", "-mfma", "-ffp-contract=off", "-shared", "-fPIC")
_POINTER, _INT = ctypes.c_void_p, ctypes.c_int
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "rs_kit": (ctypes.c_char_p, [_INT]),
    "rs_model": (_POINTER, [_POINTER, _INT, _POINTER]),
    "rs_model_free": (None, [_POINTER]),
    "rs_work": (_POINTER, [_POINTER]),
    "rs_work_free": (None, [_POINTER]),
    "rs_pasts": (_POINTER, [_POINTER]),
    "rs_pasts_free": (None, [_POINTER]),
    "rs_pasts_copy": (_INT, [_POINTER, _POINTER]),
    "rs_products": (None, [_POINTER, _INT, _INT]),
    "rs_encode": (_INT, [_POINTER, _POINTER, _POINTER, _INT, _POINTER]),
    "rs_lists": (_POINTER, [_POINTER] * 5),
    "rs_lists_free": (None, [_POINTER]),
    "rs_pieces": (_INT, [_POINTER, _POINTER, _INT, _POINTER, _INT, _POINTER]),
    "rs_rows": (_INT, [_POINTER] * 5 + [_INT] + [_POINTER] * 3 + [_INT] + [_POINTER] * 6),
    "rs_begin": (_INT, [_POINTER, _POINTER, _INT, _POINTER, _POINTER, _INT, _INT, ctypes.c_int64, _INT]),
    "rs_go_on": (_INT, [_POINTER, _INT]),
}


def library_path() -> Path:
    """Return where the library is put; its name holds what it was made of, so that no other is opened."""
    made_of = SOURCE.read_bytes() + " ".join(_OPTIONS).encode()
    return SOURCE.with_name(f"native-{hashlib.sha256(made_of).hexdigest()[:12]}.so")


def build() -> Path:
    """Compile the engine; nothing is fetched."""
    path, found = library_path(), compiler()
    if platform.machine() not in ("x86_64", "AMD64"):
        raise UserError(f"the native engine is for x86-64 processors, this one is {platform.machine()}; leave it out")
    if not found:
        raise UserError("no C++ compiler here (g++ or clang++, or name one in CXX)")
    try:
        with atomic_file(path) as scratch:
            _compile(found, scratch)
    except OSError as error:
        raise UserError(f"{path.parent}: the native engine cannot be written there ({error.strerror})") from None
    for other in path.parent.glob("native-*.so"):
        if other != path:
            with suppress(OSError):  # another build was faster
                other.unlink()
    return path


def _compile(with_: str, out: Path) -> None:
    try:
        done = subprocess.run([with_, *_OPTIONS, str(SOURCE), "-o", str(out)], check=False, capture_output=True)
    except OSError as error:
        raise UserError(f"{with_} cannot be started ({error.strerror}); name another compiler in CXX") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise UserError(f"{with_} cannot build the native engine: {said[0] if said else done.returncode}")


def compiler() -> str | None:
    """Return the C++ compiler of this machine: $CXX, g++ or clang++."""
    names = (os.environ.get("CXX"), "g++", "clang++")
    return next((path for name in names if name and (path := shutil.which(name))), None)


def library() -> Any:
    """Open what was built."""
    path = library_path()
    if not path.is_file():
        raise UserError("compute type int8_native: the native engine is not built here; run 'recoversat build' once")
    return _opened(path)


@cache
def _opened(path: Path) -> Any:
    try:
        opened = ctypes.CDLL(str(path))
    except OSError as error:
        raise UserError(f"{path}: cannot be opened ({error}); run 'recoversat build' again") from None
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(opened, name)
        function.restype, function.argtypes = result, arguments
    return opened


def address_of(array: NDArray[Any] | None) -> int | None:
    """Return where an array lies, which somebody has to keep."""
    return None if array is None else array.ctypes.data


def give_back(owner: object, free: Any, address: int) -> None:
    """Free memory when nobody has its owner any more; not at exit, when threads may still be at work."""
    weakref.finalize(owner, free, address).atexit = False


def check(answer: int) -> int:
    """Return what a function of the library said, unless it had no memory."""
    if answer < 0:
        raise MemoryError
    return answer


def kits() -> list[str]:
    """Return the kits that run on this processor, the fastest first."""
    return [name for number, name in enumerate(KITS) if library().rs_kit(number)]
