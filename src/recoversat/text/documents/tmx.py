"""Translation memories (.tmx): each unit without a text in the target language gets one; what is there stays."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

from recoversat.errors import UserError
from recoversat.text.documents import Languages
from recoversat.text.documents.block import Document
from recoversat.text.documents.inline import Inline
from recoversat.text.documents.xml_nodes import Node, Thing, Tree, parse_xml, refill, written_xml

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


@dataclass(frozen=True)
class _Unit:
    """The text of a unit in the source language, and the node of the target language, if there is one."""

    source: Node
    target: Node | None
    read: Inline[Thing]


def parse(source: bytes, languages: Languages) -> Document[bytes]:
    """Find the units that are not translated yet."""
    blocks = [unit.read.block for unit in _units(parse_xml(source, "tmx"), languages)]

    def put_back(translations: Sequence[str]) -> bytes:
        tree = parse_xml(source, "tmx")
        for unit, translation in zip(list(_units(tree, languages)), translations, strict=True):
            _fill(unit, translation, languages.target)
        return written_xml(tree, source) if blocks else source

    return Document(blocks, put_back)


def _units(tree: Tree, languages: Languages) -> Iterator[_Unit]:
    if tree.getroot().tag != "tmx":
        raise UserError("not a tmx file: its first element is no <tmx>")
    known: set[str] = set()
    for unit in tree.iter("tu"):
        texts = {str(node.get(_LANGUAGE) or node.get("lang") or ""): node for node in unit.iter("tuv")}
        known |= texts.keys()
        source, target = _of(texts, languages.source), _of(texts, languages.target)
        text = None if source is None else source.find("seg")
        there = None if target is None else target.find("seg")
        if text is not None and (there is None or not "".join(there.itertext()).strip()):
            yield _Unit(source, target, _read(text))
    if known and not _of(dict.fromkeys(known, True), languages.source):
        raise UserError(f"no text in {languages.source!r} is in it; there are: {', '.join(sorted(known))[:200]}")


def _of(texts: dict[str, Node], language: str) -> Node | None:
    """Choose a text by its language: the very one, or else one of another region.

    >>> _of({"de-AT": 1, "DE": 2, "en": 3}, "de"), _of({"en-US": 1}, "en_GB"), _of({"fr": 1}, "de")
    (2, 1, None)
    """
    codes = {code.lower().replace("_", "-"): node for code, node in texts.items()}
    wanted = language.lower().replace("_", "-")
    main = wanted.partition("-")[0]
    alike = [node for code, node in codes.items() if code.partition("-")[0] == main]
    return codes.get(wanted, codes.get(main, alike[0] if alike else None))


def _read(segment: Node) -> Inline[Thing]:
    inline: Inline[Thing] = Inline()
    _say(inline, segment)
    return inline


def _say(inline: Inline[Thing], node: Node) -> None:
    """Say what is in a node; native codes stay, in pairs where they are."""
    inline.say(node.text or "")
    children = list(node)
    last = {child.get("i"): n for n, child in enumerate(children) if child.tag == "ept"}
    opened: list[int] = []  # where the pairs end that have begun
    for n, child in enumerate(children):
        if child.tag == "hi":
            inline.open(Thing(child))
            _say(inline, child)
            inline.close()
        elif child.tag == "bpt" and n < (end := last.get(child.get("i"), -1)) < min([len(children), *opened[-1:]]):
            opened.append(end)
            inline.open(Thing(child, children[end]))
        elif opened and n == opened[-1]:
            opened.pop()
            inline.close()
        else:
            inline.add(Thing(child))
        inline.say(child.tail or "")


def _fill(unit: _Unit, translation: str, language: str) -> None:
    """Write a translation into its unit, as a copy of the source with another text."""
    copy = deepcopy(unit.source)
    for attribute in list(copy.attrib):
        del copy.attrib[attribute]
    copy.set(_LANGUAGE, language)
    for child in list(copy):
        if child.tag != "seg":
            copy.remove(child)  # what was noted of the source
    segment = copy.find("seg")
    refill(segment, _read(segment).read(translation))
    if unit.target is None:
        copy.tail = unit.source.tail
        unit.source.addnext(copy)
        return
    empty = unit.target.find("seg")
    if empty is not None:
        segment.tail = empty.tail
        unit.target.replace(empty, segment)
    else:
        unit.target.append(segment)
