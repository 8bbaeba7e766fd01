"""Parquet as input: the column "text" is translated, all others are kept, "translation" is added."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from recoversat.cluster.inputs import Part, digest_of
from recoversat.errors import UserError
from recoversat.files.records import TEXT, TRANSLATION
from recoversat.files.storage import atomic_file

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    raise UserError("Parquet needs pyarrow: pip install 'recoversat[cluster]'") from None

_ROWS = 4096  # decoded at a time


class ParquetInput:
    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = pyarrow.parquet.ParquetFile(path)
        except FileNotFoundError:
            raise UserError(f"{path}: no such file") from None
        except pyarrow.ArrowInvalid as error:
            raise UserError(f"{path}: damaged Parquet file ({error})") from None
        if TEXT not in self._file.schema_arrow.names:
            raise UserError(f'{path}: no column "{TEXT}"; it has {", ".join(self._file.schema_arrow.names)}')
        if (kind := self._file.schema_arrow.field(TEXT).type) not in (pyarrow.string(), pyarrow.large_string()):
            raise UserError(f'{path}: the column "{TEXT}" is no text but {kind}')

    def parts(self, size: int) -> Iterator[Part]:
        n_rows = int(self._file.metadata.num_rows)
        for first in range(0, n_rows, size):
            count = min(size, n_rows - first)
            yield Part(first, count, first, _digest(self._column(first, count)))

    def texts(self, part: Part) -> list[str]:
        column = self._column(part.first, part.count)
        if len(column) != part.count or _digest(column) != part.digest:
            raise UserError(f"{self._path}: changed since the run was planned; start the command again to plan anew")
        return [text or "" for text in column]  # a row without text stays without translation

    def _column(self, first: int, count: int) -> list[str | None]:
        return [text for table in self._tables(first, count, [TEXT]) for text in table[TEXT].to_pylist()]

    def write(self, out: Path, translated: Iterable[tuple[Part, list[str]]]) -> int:
        added = pyarrow.field(TRANSLATION, pyarrow.string())
        kept = [name for name in self._file.schema_arrow.names if name != TRANSLATION]
        schema = pyarrow.schema([self._file.schema_arrow.field(name) for name in kept]).append(added)
        with atomic_file(out) as scratch, pyarrow.parquet.ParquetWriter(scratch, schema) as writer:
            for part, translations in translated:
                self.texts(part)  # is it still what was translated?
                table = pyarrow.concat_tables(self._tables(part.first, part.count, kept))
                missing = table[TEXT].is_null().to_numpy()
                column = pyarrow.array(translations, pyarrow.string(), mask=missing)
                writer.write_table(table.append_column(added, column))
        return 0

    def _tables(self, first: int, count: int, columns: list[str]) -> Iterator[Any]:
        """Yield rows as tables: of the row groups that hold some, a few rows at a time."""
        start = 0  # of a row group
        for number in range(self._file.metadata.num_row_groups):
            length = self._file.metadata.row_group(number).num_rows
            if start < first + count and first < start + length:
                at = start
                for batch in self._file.iter_batches(_ROWS, [number], columns):
                    low, high = max(first, at), min(first + count, at + len(batch))
                    if low < high:
                        yield pyarrow.Table.from_batches([batch.slice(low - at, high - low)])
                    at += len(batch)
                    if at >= first + count:
                        break
            start += length


def _digest(column: list[str | None]) -> str:
    return digest_of([f"{len(text)}:{text}\n".encode() for text in map(str, column)])
