"""An output that is written block by block and outlives a kill: the same command goes on after the last block.

OUT.partial holds whole lines, OUT.partial.json says of which input and settings they are. Both go when OUT is there.
"""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from recoversat.errors import UserError
from recoversat.files.identity import check_same
from recoversat.files.storage import atomic_stream, compression, lock, read_json, write_json


@dataclass(frozen=True)
class _Mark:
    lines: int = 0  # of the input
    digest: str = ""  # of these lines
    size: int = 0  # bytes of the output
    errors: int = 0  # records that could not be translated
    done: bool = False  # the output has its name


def partial_names(final: Path) -> tuple[Path, Path]:
    """Return the names of an output that is not finished, and of the record of what it is."""
    final = final.resolve() if final.is_symlink() else final
    return final.with_name(f"{final.name}.partial"), final.with_name(f"{final.name}.partial.json")


def kept_lines(final: Path) -> int:
    """Return how many lines of its input an earlier command has answered."""
    partial, record = partial_names(final)
    mark = _read(record)[1] if record.is_file() else _Mark()
    return mark.lines if mark.done or partial.is_file() else 0


def _read(record: Path) -> tuple[dict[str, Any], _Mark]:
    """Read of which settings an output is, and how far it has come."""
    try:
        settings = read_json(record, "record of a translation")
        return settings, _Mark(**settings.pop("mark"))
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{record}: damaged record of a translation ({error}); remove it to begin anew") from None


class PartialFile:
    """The lines of an output that has not its name yet; `settings` are all they depend on beside the input.

    As a context it names the output at the end; after an error it leaves what was kept, and says so.
    """

    def __init__(self, final: Path, settings: dict[str, Any], *, one_of_many: bool = False) -> None:
        self._final = final.resolve() if final.is_symlink() else final
        self._path, self._record = partial_names(self._final)
        self._settings: dict[str, Any] = json.loads(json.dumps(settings))
        self._one_of_many = one_of_many  # then what is done is remembered until all are: see `forget`
        self._kept = self._seen = _Mark()  # what is on disk, and what was read of the input
        self._digest = hashlib.blake2b(digest_size=16)
        self._pending: list[str] = []
        self._file: int | None = None
        self.errors = 0

    def __enter__(self) -> "PartialFile":
        self._final.parent.mkdir(parents=True, exist_ok=True)
        if not self._earlier().done:
            self._file = self._locked()
        self._kept = self._earlier()  # nobody else changes it now
        self.errors = self._kept.errors
        if self._file is not None:
            self._go_on(self._file)
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        try:
            if error is None and self._seen.lines < self._kept.lines:
                raise UserError(f"{self._path} was begun with a longer text; {self._way_out}")
            if error is None and self._file is not None:
                self._finish()
        finally:
            if self._file is not None:
                os.close(self._file)
                self._leave()

    def has(self, lines: Sequence[bytes]) -> bool:
        """Say whether the next lines of the input are answered already; refuse an input that is not the same."""
        before = self._seen.lines
        for line in lines:
            self._digest.update(line)
        self._seen = replace(self._seen, lines=before + len(lines), digest=self._digest.hexdigest())
        if self._kept.lines > self._seen.lines:
            return True
        if self._kept.lines > before:  # what is kept ends with these lines, or should
            if (self._kept.lines, self._kept.digest) != (self._seen.lines, self._seen.digest):
                raise UserError(f"{self._path} was begun with another text; {self._way_out}")
            return True
        if self._kept.done:
            raise UserError(f"{self._final} was finished with a shorter text; {self._way_out}")
        return False

    def isatty(self) -> bool:
        return False

    def write(self, line: str) -> None:
        """Take a line; `keep` puts it on the disk."""
        self._pending.append(line)

    def keep(self) -> None:
        """Write down what answers the input that was read so far."""
        if self._file is None:
            return
        block, self._pending = "".join(self._pending).encode(), []
        while block:
            block = block[os.write(self._file, block) :]
        os.fsync(self._file)
        self._note(replace(self._seen, size=os.lseek(self._file, 0, os.SEEK_CUR), errors=self.errors))

    def forget(self) -> None:
        """Remove the record of an output that is done, now that all of its command are."""
        self._record.unlink(missing_ok=True)

    def _earlier(self) -> _Mark:
        """Read how far earlier work came; refuse to go on with other settings."""
        if not self._record.is_file():
            return _Mark()
        before, mark = _read(self._record)
        if not (self._final if mark.done else self._path).exists():
            return _Mark()
        if mark.lines:
            check_same(before, self._settings, f"{self._path} was begun with other settings; {self._way_out}")
        return mark

    def _locked(self) -> int:
        """Open what is there of the output, for this process alone."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        if not lock(file):
            os.close(file)
            raise UserError(f"{self._path}: another translation writes it; wait for it or write elsewhere")
        return file

    def _go_on(self, file: int) -> None:
        """Cut off what was written last but not kept, and write on from there."""
        size = os.fstat(file).st_size
        if size < self._kept.size or (size and not self._record.is_file()):
            os.close(file)
            raise UserError(f"{self._path} is not what an interrupted translation leaves; rename or remove it")
        self._note(self._kept)
        os.ftruncate(file, self._kept.size)
        os.lseek(file, self._kept.size, os.SEEK_SET)

    def _finish(self) -> None:
        if compression(self._final):
            with open(self._path, "rb") as plain, atomic_stream(self._final) as packed:
                shutil.copyfileobj(plain, packed)
            self._path.unlink()
        else:
            os.replace(self._path, self._final)
        if self._one_of_many:
            self._note(replace(self._kept, done=True))
        else:
            self.forget()

    def _leave(self) -> None:
        """Say what was kept; where nothing was, nothing stays."""
        if self._path.exists() and self._kept.lines:
            told = f"{self._kept.lines:,} lines are done and kept in {self._path}"
            print(f"{told}; the same command goes on after them", file=sys.stderr, flush=True)
        elif not self._kept.done:
            self._path.unlink(missing_ok=True)
            self.forget()

    def _note(self, mark: _Mark) -> None:
        write_json(self._record, self._settings | {"mark": asdict(mark)})
        self._kept = mark

    @property
    def _way_out(self) -> str:
        return f"give the same again, or remove {self._record} and {self._path.name} to begin anew"
