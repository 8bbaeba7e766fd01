"""Files that are archives (.docx, .odt), read so that nobody can do harm with one."""

import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from recoversat.errors import UserError

_LARGEST = 200_000_000  # bytes of all that is in an archive, unpacked
_MOST_TIMES = 200  # that of what the archive has itself, beyond the first million
_MOST_MEMBERS = 10_000


@dataclass(frozen=True)
class Package:
    """The members of an archive, in their order."""

    members: list[tuple[zipfile.ZipInfo, bytes]]

    def read(self, name: str) -> bytes | None:
        return next((content for info, content in self.members if info.filename == name), None)

    def packed(self, changed: Mapping[str, bytes]) -> bytes:
        """Write the archive with other contents of some members."""
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for info, content in self.members:
                archive.writestr(info, changed.get(info.filename, content), compress_type=info.compress_type)
        return stream.getvalue()


def unpack(source: bytes, kind: str) -> Package:
    """Read an archive; one that is damaged, encrypted or far larger than it looks is refused."""
    try:
        with zipfile.ZipFile(io.BytesIO(source)) as archive:
            members = archive.infolist()
            size = sum(info.file_size for info in members)
            if size > min(_LARGEST, 1_000_000 + _MOST_TIMES * len(source)) or len(members) > _MOST_MEMBERS:
                raise UserError(f"this {kind} file unpacks to {size} bytes in {len(members)} parts: refused")
            return Package([(info, archive.read(info)) for info in members])
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError) as error:
        raise UserError(f"this is no {kind} file, or a damaged or encrypted one ({error})") from None
