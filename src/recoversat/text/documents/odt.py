"""LibreOffice and other writers of OpenDocument (.odt): paragraphs and headings, wherever they stand; all else stays.

A paragraph that does not change is not touched. Styles that only note when something was typed, as LibreOffice writes
them into the middle of words, are no elements of a sentence.
"""

import re
from collections.abc import Iterator

from lxml import etree

from recoversat.errors import UserError
from recoversat.text.documents.block import Document
from recoversat.text.documents.inline import Inline
from recoversat.text.documents.packages import document_of, unpack
from recoversat.text.documents.xml_nodes import Node, Thing, Tree, add_text, last_child, refill

_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_STAYS = (f"{_TEXT}tracked-changes", f"{_OFFICE}annotation")  # what was deleted, and comments
_RSID = ("rsid", "paragraph-rsid")
_PARTS = ("content.xml", "styles.xml")  # headers and footers are styles
_AROUND_TEXT = {f"{_TEXT}{name}" for name in ("span", "a", "meta", "ruby-base", "ruby")}
_SPLITS = {f"{_TEXT}tab", f"{_TEXT}line-break", f"{_TEXT}s"}
_FEW = ("1", "2", "3", "4")  # spaces; more of them are as good as a tab
# What belongs to a word and shows no text of its own; all else that stands in a paragraph is kept like a word.
_BESIDE_WORDS = re.compile(
    r"note|bookmark|reference-mark|soft-page-break|change|annotation|toc-mark|alphabetical|frame"
)
_BLANKS = re.compile(r"[ \t\r\n]+")
_SPACES = re.compile(r"\A +|(?<= ) +")  # spaces that would not be seen


def parse(source: bytes) -> Document[bytes]:
    package = unpack(source, "odt")
    parts = {name: content for name in _PARTS if (content := package.read(name)) is not None}
    if "content.xml" not in parts:
        raise UserError("not an odt file: it has no content.xml")
    return document_of(package, parts, "odt", _paragraphs, _rewrite)


def _paragraphs(tree: Tree) -> Iterator[tuple[Node, Inline[Thing]]]:
    unseen = _unseen_styles(tree)
    for node in list(tree.iter(f"{_TEXT}p", f"{_TEXT}h")):
        if next(node.iterancestors(*_STAYS), None) is not None:
            continue
        inline: Inline[Thing] = Inline()
        _read(inline, node, unseen)
        yield node, inline


def _unseen_styles(tree: Tree) -> set[str]:
    """List the styles of text that nobody sees."""
    unseen = set()
    for style in tree.iter(f"{_STYLE}style"):
        noted = all(etree.QName(name).localname in _RSID for child in style for name in child.attrib)
        if style.get(f"{_STYLE}family") == "text" and noted and not style.get(f"{_STYLE}parent-style-name"):
            unseen.add(str(style.get(f"{_STYLE}name")))
    return unseen


def _read(inline: Inline[Thing], node: Node, unseen: set[str]) -> None:
    """Say what is in a node."""
    inline.say(_BLANKS.sub(" ", node.text or ""))
    for child in node:
        if child.tag in _AROUND_TEXT:
            seen = child.get(f"{_TEXT}style-name") not in unseen or child.tag != f"{_TEXT}span"
            if seen:
                inline.open(Thing(child))
            _read(inline, child, unseen)
            if seen:
                inline.close()
        elif child.tag == f"{_TEXT}s" and child.get(f"{_TEXT}c", "1") in _FEW:
            inline.say(" " * int(child.get(f"{_TEXT}c", "1")))
        elif child.tag in _SPLITS:
            inline.part(Thing(child))
        elif not isinstance(child.tag, str) or _BESIDE_WORDS.match(etree.QName(child).localname):
            inline.add(Thing(child))
        else:
            inline.keep(Thing(child))
        inline.say(_BLANKS.sub(" ", child.tail or ""))


def _rewrite(read: Inline[Thing], node: Node, translation: str) -> None:
    refill(node, read.read(translation), _write)


def _write(node: Node, text: str) -> None:
    """Add text behind all that a node holds; spaces that would not be seen are nodes."""
    position = 0
    for match in _SPACES.finditer(text):
        if match.start() == 0 and (node.text or last_child(node) is not None):  # the first is seen there
            continue
        add_text(node, text[position : match.start()])
        etree.SubElement(node, f"{_TEXT}s", {f"{_TEXT}c": str(len(match[0]))})
        position = match.end()
    add_text(node, text[position:])
