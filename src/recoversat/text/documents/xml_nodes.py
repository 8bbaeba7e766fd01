"""XML, read so that nobody can do harm with it, and translations put into its nodes."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lxml import etree

from recoversat.errors import UserError
from recoversat.text.documents.inline import Piece

_LARGEST = 30_000_000  # bytes; a book of a thousand pages has less
_MOST_TAGS = 1_000_000
_DECLARATION = re.compile(rb"\A\s*<\?xml[^>]*\?>\s*")

Tree = Any  # lxml has no types of its own
Node = Any


@dataclass(eq=False)
class Thing:
    """What a tag stands for: a node alone or around text, or one that begins what another, `closing`, ends."""

    node: Node
    closing: Node = None


def parse_xml(source: bytes, kind: str) -> Tree:
    """Read XML; entities of its own making are refused, nothing is fetched."""
    if len(source) > _LARGEST:
        raise UserError(f"this {kind} file has {len(source)} bytes of XML in one part, at most {_LARGEST}: divide it")
    if (tags := source.count(b"<")) > _MOST_TAGS:
        raise UserError(f"this {kind} file has {tags} tags in one part, at most {_MOST_TAGS}: divide it")
    if b"<!ENTITY" in source.replace(b"\0", b""):  # in UTF-16 too
        raise UserError(f"this {kind} file declares XML entities: refused")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        tree = etree.fromstring(source, parser).getroottree()
    except (etree.XMLSyntaxError, ValueError) as error:
        raise UserError(f"damaged {kind} file ({error})") from None
    dtd = tree.docinfo.internalDTD
    if dtd is not None and any(True for _ in dtd.iterentities()):
        raise UserError(f"this {kind} file declares XML entities: refused")
    return tree


def written_xml(tree: Tree, source: bytes) -> bytes:
    """Write a tree as its source was written: the same encoding, the same first line."""
    encoding = tree.docinfo.encoding or "UTF-8"
    declared = _DECLARATION.match(source)
    if encoding.upper() not in ("UTF-8", "ASCII", "US-ASCII") or not declared:
        return bytes(etree.tostring(tree, encoding=encoding, xml_declaration=True, standalone=tree.docinfo.standalone))
    end = re.search(rb"\s*\Z", source)
    body: str = etree.tostring(tree, encoding="unicode")
    return declared[0] + body.strip().encode() + (end[0] if end else b"")


def add_text(node: Node, text: str) -> None:
    """Add text behind all that a node holds."""
    last = last_child(node)
    if last is None:
        node.text = (node.text or "") + text
    else:
        last.tail = (last.tail or "") + text


def last_child(node: Node) -> Node | None:
    """Return the last child of a node, if any; `len` would count them all."""
    return next(node.iterchildren(reversed=True), None)


def refill(node: Node, pieces: Iterable[Piece[Thing]], add: Callable[[Node, str], None] = add_text) -> None:
    """Put text and nodes into the place of all that a node held."""
    pieces = list(pieces)
    places = [_emptied(node)]
    for piece in pieces:
        if piece.thing is None:
            add(places[-1], piece.text)
        elif piece.kind == "close" and piece.thing.closing is None:
            places.pop()
        else:
            moved = piece.thing.closing if piece.kind == "close" else piece.thing.node
            places[-1].append(moved)
            moved.tail = None
            if piece.kind == "open" and piece.thing.closing is None:
                places.append(_emptied(moved))


def _emptied(node: Node) -> Node:
    node.text = None
    for child in list(node):
        node.remove(child)
    return node
