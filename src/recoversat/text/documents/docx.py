"""Word (.docx): paragraphs of the text, its tables, headers, footers and notes; all else stays as it is.

A paragraph is made of runs, each with a format. The format most of it has is the paragraph's own; what has another one,
and what is linked, is an element of the sentence, as in HTML. A paragraph that does not change is not touched.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from lxml import etree

from recoversat.errors import UserError
from recoversat.text.documents.block import Document
from recoversat.text.documents.inline import Inline
from recoversat.text.documents.packages import Package, document_of, unpack
from recoversat.text.documents.xml_nodes import Node, Tree, parse_xml

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_TYPES = "[Content_Types].xml"
_TRANSLATED = ("document.main+xml", "template.main+xml", "header+xml", "footer+xml", "footnotes+xml", "endnotes+xml")
_AROUND_TEXT = ("hyperlink", "ins", "moveTo", "smartTag", "customXml", "sdt", "sdtContent", "dir", "bdo")
_PROPERTIES = ("pPr", "rPr", "sdtPr", "sdtEndPr", "smartTagPr", "customXmlPr")
_SPLITS = ("tab", "ptab", "br", "cr")  # what ends a sentence
_LIKE_WORDS = ("oMath", "oMathPara", "fldSimple", "sym", "pgNum")
_LEFT_OUT = ("proofErr", "lastRenderedPageBreak", "softHyphen")
_UNSEEN = ("lang", "noProof", "rPrChange")  # formats that nobody sees
_DEEPEST = 20  # fields and nodes around text in each other; Word takes no more
_FIELD_MARKS: dict[str, Literal["begin", "separate"]] = {"begin": "begin", "separate": "separate"}


@dataclass
class _Item:
    """A piece of a paragraph: text or a node in a run of some format, a node beside runs, or where one begins or ends.

    Fields, such as page numbers, begin, say what they are in a code, are separated from what is seen of them, and end.
    """

    kind: Literal["text", "add", "keep", "part", "open", "close", "begin", "code", "separate", "end"]
    node: Node = None
    format: Node = None
    text: str = ""
    in_run: bool = True

    @cached_property
    def look(self) -> str:
        """Its format, to be told from others."""
        return _key(self.format)

    def written(self) -> Node:
        """Take the node out of the paragraph, into a run of its own where it was in one."""
        if not self.in_run:
            return self.node
        run = etree.Element(f"{_W}r")
        if self.format is not None:
            run.append(deepcopy(self.format))
        if self.node is not None:
            run.append(self.node)
            self.node.tail = None
        else:
            content = etree.SubElement(run, f"{_W}t")
            content.text = self.text
            content.set(_SPACE, "preserve")
        return run


@dataclass(eq=False)
class _Thing:
    """What a tag stands for: items alone, items that begin and end an element, or a node or format around text."""

    items: Sequence[_Item] = ()
    closing: Sequence[_Item] = ()
    around: Node = None
    format: Node = None
    base: Node = None  # format of what is in `around` unless it has its own


def parse(source: bytes) -> Document[bytes]:
    package = unpack(source, "docx")
    return document_of(package, _parts(package), "docx", _paragraphs, _Paragraph.rewrite)


def _parts(package: Package) -> dict[str, bytes]:
    """Find the members that hold text, by their types."""
    types = package.read(_TYPES)
    if types is None:
        raise UserError("not a docx file: it has no list of its parts")
    names = [
        node.get("PartName", "").lstrip("/")
        for node in parse_xml(types, "docx").getroot()
        if str(node.get("ContentType", "")).endswith(_TRANSLATED)
    ]
    found = {name: content for name in names if (content := package.read(name)) is not None}
    if not found:
        raise UserError("not a docx file: it has no text part (an old .doc, or another kind of Office file?)")
    return found


def _paragraphs(tree: Tree) -> Iterator[tuple[Node, "_Paragraph"]]:
    if _STRICT in tree.getroot().nsmap.values():
        raise UserError("this docx file is in the strict form of the format; save it as a plain Word document")
    for node in list(tree.iter(f"{_W}p")):
        if node.find(f".//{_W}t") is not None:
            yield node, _Paragraph(list(_items(node)))


def _name(node: Node) -> str:
    return str(etree.QName(node).localname) if isinstance(node.tag, str) else ""


def _items(node: Node) -> Iterator[_Item]:
    """Walk through the runs of a paragraph, or of a node around text."""
    for child in node:
        name = _name(child)
        if name == "r":
            yield from _run_items(child)
        elif name in _AROUND_TEXT:
            yield _Item("open", child, in_run=False)
            yield from _items(child)
            yield _Item("close", child, in_run=False)
        elif name not in _PROPERTIES and name not in _LEFT_OUT:
            yield _Item("keep" if name in _LIKE_WORDS else "add", child, in_run=False)


def _run_items(run: Node) -> Iterator[_Item]:
    format = run.find(f"{_W}rPr")
    for child in run:
        name = _name(child)
        if name == "t":
            text = child.text or ""
            yield _Item("text", None, format, text if child.get(_SPACE) == "preserve" else text.strip(" \t\r\n"))
        elif name == "noBreakHyphen":
            yield _Item("text", None, format, "\u2011")
        elif name == "fldChar":
            yield _Item(_FIELD_MARKS.get(child.get(f"{_W}fldCharType"), "end"), child, format)
        elif name == "instrText":
            yield _Item("code", child, format, child.text or "")
        elif name in _SPLITS:
            yield _Item("part", child, format)
        elif name not in _PROPERTIES and name not in _LEFT_OUT:
            yield _Item("keep" if name in _LIKE_WORDS else "add", child, format)


class _Paragraph(Inline[_Thing]):
    """A paragraph as text with elements."""

    def __init__(self, items: list[_Item]) -> None:
        super().__init__()
        self.base = _usual_format(items)
        self._items, self._ends = items, _ends(items)
        self._bases = [self.base]  # of what is open, outermost first
        self._format: str | None = None  # that has been begun
        self._read(0, len(items))

    def _read(self, start: int, end: int) -> None:
        at = start
        while at < end:
            item = self._items[at]
            if item.kind == "text":
                self._say(item)
            elif item.kind in ("open", "begin") and at in self._ends:
                self._end_format()
                if item.kind == "open":  # a node around text, such as a link
                    self._element(_Thing(around=item.node), at + 1, self._ends[at])
                else:
                    self._field(at, self._ends[at])
                at = self._ends[at]
            elif item.kind == "part":
                self._end_format()
                self.part(_Thing([item]))
            elif item.kind == "keep":
                self.keep(_Thing([item]))
            else:  # and marks of fields that begin or end in another paragraph
                self.add(_Thing([item]))
            at += 1
        self._end_format()

    def _say(self, item: _Item) -> None:
        """Add text, in a format of its own where it has one; of spaces nobody sees it."""
        format = item.look
        if item.text.strip() and format != self._format:
            self._end_format()
            if format != _key(self._bases[-1]):
                self.open(_Thing(format=item.format if item.format is not None else etree.Element(f"{_W}rPr")))
                self._format = format
        self.say(item.text)

    def _end_format(self) -> None:
        if self._format is not None:
            self.close()
        self._format = None

    def _field(self, start: int, end: int) -> None:
        """Add a field: of a link the text is translated, others are kept."""
        items = self._items[start : end + 1]
        code = "".join(item.text for item in items if item.kind == "code")
        seen = next((start + n for n, item in enumerate(items) if item.kind == "separate"), None)
        if seen is None or not code.strip().upper().startswith("HYPERLINK"):
            self.keep(_Thing(items))
        else:
            self._element(_Thing(self._items[start : seen + 1], [self._items[end]]), seen + 1, end)

    def _element(self, thing: _Thing, start: int, end: int) -> None:
        thing.base = _usual_format(self._items[start:end])
        self._bases.append(thing.base)
        if len(self._bases) > _DEEPEST:
            raise UserError("this docx file has links or fields in each other far too deep: refused")
        self.open(thing)
        self._read(start, end)
        self._bases.pop()
        self.close()

    def rewrite(self, paragraph: Node, translation: str) -> None:
        """Put a translation into the place of all that was read."""
        pieces = list(self.read(translation))
        _clear(paragraph)
        places, formats = [paragraph], [self.base]
        for piece in pieces:
            thing = piece.thing
            if thing is None:
                places[-1].append(_Item("text", None, formats[-1], piece.text).written())
            elif piece.kind == "close":
                formats.pop()
                if thing.around is not None:
                    places.pop()
                places[-1].extend(item.written() for item in thing.closing)
            else:
                places[-1].extend(item.written() for item in thing.items)
                if thing.around is not None:
                    places[-1].append(thing.around)
                    thing.around.tail = None
                    _clear(thing.around)
                    places.append(thing.around)
                if piece.kind == "open":
                    formats.append(thing.format if thing.format is not None else thing.base)


def _ends(items: Sequence[_Item]) -> dict[int, int]:
    """Find where what begins in a paragraph ends; a field and a node around text may not overlap."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for n, item in enumerate(items):
        if item.kind in ("open", "begin"):
            opened.append(n)
        elif item.kind == "close":
            while items[opened[-1]].kind == "begin":  # a field that ends outside
                opened.pop()
            ends[opened.pop()] = n
        elif item.kind == "end" and opened and items[opened[-1]].kind == "begin":
            ends[opened.pop()] = n
    return ends


def _usual_format(items: Sequence[_Item]) -> Node:
    """Choose the format of most characters."""
    known: dict[str, Node] = {}
    count: Counter[str] = Counter()
    for item in items:
        if item.kind == "text":
            known.setdefault(item.look, item.format)
            count[item.look] += len(item.text.strip())
    return known[count.most_common(1)[0][0]] if count else None


def _key(format: Node) -> str:
    """Tell formats apart by what can be seen of them."""
    if format is None:
        return ""
    seen = [one for one in format if _name(one) not in _UNSEEN]
    return "".join(sorted(etree.tostring(one, encoding="unicode", with_tail=False) for one in seen))


def _clear(node: Node) -> None:
    for child in list(node):
        if _name(child) not in _PROPERTIES:
            node.remove(child)
