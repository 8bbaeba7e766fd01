"""Files that appear whole or not at all, and text that may be compressed."""

import errno
import glob
import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from recoversat.errors import UserError

_COMPRESSED = (".gz", ".xz", ".zst")
_MANY_ZEROS = 4
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def atomic_folder(final: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a scratch folder that takes the name `final` when the block ends without an error."""
    final.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{final.name}.", suffix=".partial", dir=final.parent))
    try:
        yield scratch
        scratch.chmod(0o755)
        for path in sorted(scratch.rglob("*")):
            _sync(path)
        _sync(scratch)
        if replace and final.exists():
            _replace(scratch, final)
        else:
            os.rename(scratch, final)
        _sync(final.parent)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


@contextmanager
def held(folder: Path, refusal: str, patience: float = 10.0) -> Iterator[int]:
    """Hold a folder, made where there is none, for this process alone; yields a file that children may keep open.

    It is free again when the last process that has the file open has ended. A killed training's helpers take some
    seconds for that, hence the patience.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; choose a folder")
    is_new, deadline = not folder.exists(), time.monotonic() + patience
    while (file := _take(folder)) is None:
        if time.monotonic() > deadline:
            raise UserError(f"{folder}: {refusal}")
        time.sleep(0.1)
    try:
        yield file
    finally:
        if is_new:
            with suppress(OSError):  # something was written
                folder.rmdir()
        os.close(file)


def _take(folder: Path) -> int | None:
    """Open and lock a folder; None where somebody has it, or removed it meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    file = os.open(folder, os.O_RDONLY)
    if lock(file) and folder.exists() and os.path.samestat(os.fstat(file), folder.stat()):
        return file
    os.close(file)
    return None


def lock(file: int) -> bool:
    """Lock an open file or folder for this process; say whether nobody else has it."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True


def refuse_existing(out: Path, force: bool) -> None:
    """Refuse to write over something that was not to be replaced."""
    if out.exists() and not force:
        raise UserError(f"{out} exists already; choose another folder or add --force to replace it")


def make_empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _replace(scratch: Path, final: Path) -> None:
    """Put a folder in the place of another; whatever happens, one of them has the name."""
    retired = Path(tempfile.mkdtemp(prefix=f".{final.name}.", suffix=".retired", dir=final.parent))
    os.rename(final, retired / final.name)
    try:
        os.rename(scratch, final)
    finally:
        if not final.exists():  # should this fail too, the old one stays where `sweep_partial` finds it
            os.rename(retired / final.name, final)
        shutil.rmtree(retired)


@contextmanager
def atomic_file(final: Path) -> Iterator[Path]:
    """Yield a scratch path that takes the name `final` when the block ends without an error.

    A link keeps pointing where it does; what is no plain file (/dev/null, a pipe) is written into, never replaced.
    """
    final = final.resolve() if final.is_symlink() else final
    if final.is_dir():
        raise UserError(f"{final}: is a folder; name a file, which may lie in it")
    if final.exists() and not final.is_file():
        yield final
        return
    final.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{final.name}.", suffix=".partial", dir=final.parent)
    os.close(handle)
    scratch = Path(name)
    try:
        yield scratch
        mask = os.umask(0)
        os.umask(mask)
        scratch.chmod(0o666 & ~mask)
        _sync(scratch)
        os.replace(scratch, final)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write `text` under its final name only once it is complete."""
    with atomic_file(path) as scratch:
        scratch.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path, what: str) -> Any:
    """Read JSON; `what` names the thing for the error message, e.g. "model folder"."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path.parent}: not a {what} ({path.name} is missing)") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: damaged {what} ({error})") from None


def sweep_partial(folder: Path, name: str | None = None) -> None:
    """Remove what a killed process left under scratch names: in a folder of ours, or (`name`) of one thing in it."""
    of_one = f".{glob.escape(name)}.????????" if name else ".*"  # eight characters are what `tempfile` draws
    for path in folder.glob(f"{of_one}.partial"):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for retired in folder.glob(f"{of_one}.retired"):
        for old in retired.iterdir():  # killed between the two renames: the old folder comes back
            if not (folder / old.name).exists():
                os.rename(old, folder / old.name)
        shutil.rmtree(retired, ignore_errors=True)


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a plain, .gz, .xz or .zst UTF-8 text file.

    A byte that is not UTF-8 raises an error that names file and line. Only "\\n" (or "\\r\\n") ends a line, so exotic
    separators stay text.
    """
    with faults_named(path), open_bytes(path) as stream:
        for index, raw in enumerate(stream):
            yield decoded_line(raw, str(path), index)


def decoded_line(raw: bytes, name: str, index: int) -> str:
    """Decode a line without its end; `index` counts from 0, and the first may begin with a byte-order mark."""
    line = decoded(raw, f"{name}, line {index + 1}", "utf-8" if index else "utf-8-sig")
    return line.removesuffix("\n").removesuffix("\r")


def decoded(raw: bytes, name: str, encoding: str = "utf-8-sig") -> str:
    """Decode UTF-8, or say which text is not; UTF-16 of plain letters would pass for it, with a zero beside each."""
    if (zeros := raw.count(b"\0")) >= _MANY_ZEROS and 3 * zeros > len(raw):
        raise UserError(f"{name}: full of zero bytes, as UTF-16 or a damaged file is; convert it, e.g. with iconv")
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: not UTF-8 ({error.reason}); convert it, e.g. with iconv") from None


def unpacked_name(path: Path) -> Path:
    """Return the name of a file without what says that it is compressed.

    >>> unpacked_name(Path("page.html.gz")).name, unpacked_name(Path("page.html")).name
    ('page.html', 'page.html')
    """
    return path.with_suffix("") if compression(path) else path


def compression(path: Path) -> str:
    """Tell how a file is compressed, as its name says; "" if not.

    >>> compression(Path("corpus.en.GZ")), compression(Path("corpus.en"))
    ('.gz', '')
    """
    suffix = path.suffix.lower()
    return suffix if suffix in _COMPRESSED else ""


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading, uncompressed on the way as its name says."""
    if compression(path) == ".zst":
        with open(path, "rb"):  # so that errors are the usual ones
            return io.BufferedReader(_pyarrow(path).input_stream(path, compression="zstd"))
    opener: Any = {".gz": gzip.open, ".xz": lzma.open}.get(compression(path), open)
    opened: IO[bytes] = opener(path, "rb")
    return opened


@contextmanager
def atomic_stream(final: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing, compressed as its name says, that appears whole or not at all."""
    with atomic_file(final) as scratch, ExitStack() as stack:
        stream: Any
        if compression(final) == ".zst":
            stream = stack.enter_context(_pyarrow(final).output_stream(scratch, compression="zstd"))
        elif compression(final) == ".xz":
            stream = stack.enter_context(lzma.open(scratch, "wb"))
        else:
            stream = stack.enter_context(open(scratch, "wb"))
        if compression(final) == ".gz":  # no name and no time in it: the same text is the same file
            stream = stack.enter_context(gzip.GzipFile("", "wb", 6, stream, mtime=0))
        yield stream


def _pyarrow(path: Path) -> Any:
    """Return the reader of .zst: unlike `zstandard` it notices a file that was cut off."""
    try:
        import pyarrow
    except ImportError:
        raise UserError(f"{path}: .zst files need pyarrow: pip install 'recoversat[cluster]'") from None
    return pyarrow


@contextmanager
def faults_named(path: Path) -> Iterator[None]:
    """Turn what can be wrong with a text file into a clear error."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder, not a text file") from None
    except PermissionError:
        raise UserError(f"{path}: may not be read; ask its owner, or see `chmod`") from None
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise UserError(f"{path}: damaged {path.suffix} file ({error})") from None
    except OSError as error:
        if compression(path) != ".zst" or error.errno:
            raise
        raise UserError(f"{path}: damaged .zst file ({error})") from None


@contextmanager
def write_faults_named(path: Path) -> Iterator[None]:
    """Turn what can keep an output from being written into a clear error."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise UserError(f"{path}: the disk is full ({error.strerror}); make room or write elsewhere") from None
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise UserError(f"{path}: may not be written ({error.strerror}); choose another place") from None
        raise


def fingerprint(*paths: Path) -> str:
    """Hash file contents (not names) into 16 hex digits."""
    digest = hashlib.blake2b(digest_size=8)
    for path in paths:
        with open(path, "rb") as stream:
            hashlib.file_digest(stream, lambda: digest)
        digest.update(b"\0")
    return digest.hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
