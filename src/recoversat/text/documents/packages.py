"""Files that are archives of XML (.docx, .odt), read so that nobody can do harm with one."""

import io
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from recoversat.errors import UserError
from recoversat.text.documents.block import Document
from recoversat.text.documents.inline import Inline
from recoversat.text.documents.xml_nodes import Node, Tree, parse_xml, written_xml

_LARGEST = 200_000_000  # bytes of all that is in an archive, unpacked
_MOST_TIMES = 200  # that of what the archive has itself, beyond the first million
_MOST_MEMBERS = 10_000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those of documents; others are unpacked without any bound


P = TypeVar("P", bound=Inline[Any])  # a paragraph


@dataclass(frozen=True)
class Package:
    """The members of an archive by their names, in their order."""

    members: dict[str, tuple[zipfile.ZipInfo, bytes]]

    def read(self, name: str) -> bytes | None:
        return self.members[name][1] if name in self.members else None

    def packed(self, changed: Mapping[str, bytes]) -> bytes:
        """Write the archive with other contents of some members."""
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for info, content in self.members.values():
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
            if any(info.compress_type not in _METHODS for info in members):
                raise UserError(f"this {kind} file is compressed in a way that documents never are: refused")
            if len({info.filename for info in members}) < len(members):
                raise ValueError("it has two parts of the same name")
            return Package({info.filename: (info, _content(archive, info)) for info in members})
    except UserError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError) as error:
        raise UserError(f"this is no {kind} file, or a damaged or encrypted one ({error})") from None


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Read a member, and no more than it says it has: `ZipFile.read` would unpack all there is before it looks."""
    with archive.open(info) as member:
        return member.read(info.file_size)


def document_of(
    package: Package,
    parts: Mapping[str, bytes],
    kind: str,
    paragraphs: Callable[[Tree], Iterable[tuple[Node, P]]],
    rewrite: Callable[[P, Node, str], None],
) -> Document[bytes]:
    """Translate the paragraphs of some parts; one whose translation is its source is not touched."""

    def put_back(translations: Sequence[str]) -> bytes:
        left, changed = iter(translations), {}
        for name, content in parts.items():
            tree = parse_xml(content, kind)
            found = [(read, node, next(left)) for node, read in paragraphs(tree)]
            new = [(read, node, text) for read, node, text in found if text != read.source]
            for read, node, text in new:
                rewrite(read, node, text)
            if new:
                changed[name] = written_xml(tree, content)
        return package.packed(changed)

    blocks = [read.block for content in parts.values() for _, read in paragraphs(parse_xml(content, kind))]
    return Document(blocks, put_back)
