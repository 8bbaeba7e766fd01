"""Translate texts as people have them: any length, any line breaks, with placeholders or as HTML.

    text -> blocks -> sentences -> (over-long: parts) -> masked -> translate -> unmasked -> the same places

`translate` is called for all sentences of all texts at once, and once more for the pieces of those in which it lost or
changed something that must survive. Then the tags of HTML: what stands in them is translated to be found again,
`locate` says where it went otherwise, and where nothing helps, the text between tags is translated by itself.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from recoversat.text.documents.elements import Element, element_tree
from recoversat.text.documents.html import Block, blocks_of_html
from recoversat.text.documents.tags import Locate, Tagged, set_tags
from recoversat.text.placeholders import (
    bare_words,
    hard_texts,
    has_words,
    mask,
    pieces,
    protected_spans,
    trim,
    unmask,
)
from recoversat.text.sentences import Range, sentence_spans, split_to_fit

Translate = Callable[[list[str]], list[str]]
Fits = Callable[[str], bool]

_BREAK = re.compile(r"[\n\r\t\v\f\x1c-\x1e\x85\u2028\u2029]+")


@dataclass(frozen=True)
class SplitSentence:
    """A sentence that was too long for the model, and the parts it was translated in."""

    sentence: str
    parts: tuple[str, ...]


@dataclass(frozen=True)
class TranslatedDocument:
    """A translation; the sentences split to fit, and those translated around what must survive."""

    text: str
    split: tuple[SplitSentence, ...] = ()
    in_pieces: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Answer:
    """The translation of one string, and how it came about."""

    text: str
    parts: tuple[str, ...]
    in_pieces: bool


@dataclass(frozen=True)
class _Sentence:
    """Runs of text with tags between them, to be translated; `tree` where the tags make elements."""

    block: Block
    runs: list[str]
    marks: list[str]
    tree: Element | None

    @property
    def whole(self) -> str:
        """The sentence without its tags."""
        return "".join(self.runs)


def translate_document(
    text: str,
    translate: Translate,
    *,
    language: str,
    format: Literal["text", "html"] = "text",
    n_tokens: Callable[[str], int] = len,
    max_tokens: int | None = None,
    locate: Locate | None = None,
) -> TranslatedDocument:
    r"""Translate one text; see `translate_documents`.

    >>> shout = lambda sentences: [sentence.upper() for sentence in sentences]
    >>> translate_document("Hi {name}!  Bye.\n", shout, language="en").text
    'HI {name}!  BYE.\n'
    """
    return translate_documents(
        [text], translate, language=language, format=format, n_tokens=n_tokens, max_tokens=max_tokens, locate=locate
    )[0]


def translate_documents(
    texts: Sequence[str],
    translate: Translate,
    *,
    language: str,
    format: Literal["text", "html"] = "text",
    n_tokens: Callable[[str], int] = len,
    max_tokens: int | None = None,
    locate: Locate | None = None,
) -> list[TranslatedDocument]:
    """Translate texts written in `language`, keeping white space, placeholders and tags.

    `translate` gets different, non-empty, single-line strings of at most `max_tokens` (by `n_tokens`), and
    answers one string for each; the first call is for the sentences themselves. Where it answers nothing at all, the
    source stands. In plain text a line break or tab ends a sentence and stays where it is; in HTML only tags end one,
    and line breaks within a sentence become spaces.
    """
    if max_tokens is not None and max_tokens < 1:
        raise ValueError(f"max_tokens: {max_tokens} leaves no room for any text; give 1 or more")

    def fits(part: str) -> bool:
        return max_tokens is None or n_tokens(_as_seen(part)) <= max_tokens

    documents = [_parse(text, language, format) for text in texts]
    sentences = [part for document in documents for part in document if isinstance(part, _Sentence)]
    answers: dict[str, _Answer] = {}

    def ask(units: Iterable[str]) -> None:
        new = dict.fromkeys(unit for unit in units if unit not in answers)
        answers.update(_translate_units(new, translate, fits))

    ask(unit for sentence in sentences for unit in ([sentence.whole] if sentence.tree else sentence.runs))
    ask(element.text for sentence in sentences if sentence.tree for element in sentence.tree.descendants())
    placed = _with_tags(sentences, answers, locate)
    ask(run for sentence, woven in zip(sentences, placed, strict=True) if woven is None for run in sentence.runs)
    in_order = iter(placed)
    return [_assemble(document, answers, in_order) for document in documents]


def _parse(text: str, language: str, format: Literal["text", "html"]) -> list[str | _Sentence]:
    """Part a text into sentences and what is copied between them."""
    parsed: list[str | _Sentence] = []
    for block in blocks_of_html(text) if format == "html" else [Block(text, text)]:
        if isinstance(block, str):
            parsed.append(block)
            continue
        position = done_tags = 0
        for span in sentence_spans(block.text, language, keep=_keep(block.text)):
            start, end = block.without_pictures(*span)
            if start >= end:
                continue
            tags = block.tags_of(start, end)
            runs, marks = block.runs(start, end, tags)
            sentence = _Sentence(block, runs, marks, element_tree(runs, marks))
            if has_words(sentence.whole):
                parsed += [block.source(position, start, slice(done_tags, tags.start)), sentence]
                position, done_tags = end, tags.stop
        parsed.append(block.source(position, len(block.text), slice(done_tags, len(block.tags))))
    return parsed


def _translate_units(units: Iterable[str], translate: Translate, fits: Fits) -> dict[str, _Answer]:
    """Translate strings, in parts where they are too long, in pieces where something was lost."""
    parts = {unit: split_to_fit(unit, fits, _keep(unit)) for unit in units if has_words(unit)}
    done = _translate_parts(dict.fromkeys(part for split in parts.values() for part in split), translate, fits)
    answers = {}
    for unit, split in parts.items():
        texts = [done[part][0] for part in split]
        if len(split) > 1:
            texts = [_ended_like(part, text) for part, text in zip(split, texts, strict=True)]
        answers[unit] = _Answer("".join(texts), tuple(split), any(done[part][1] for part in split))
    return answers


def _translate_parts(parts: Iterable[str], translate: Translate, fits: Fits) -> dict[str, tuple[str, bool]]:
    """Translate strings that fit; give with each translation whether it was made in pieces."""
    done = {part: (part, False) for part in parts}
    trimmed = {part: trim(part) for part in done if has_words(part)}
    # What cannot be cut to fit, a word grown together with placeholders, goes in pieces at once.
    masked = {part: mask(core) if fits(part) else None for part, (_, core, _) in trimmed.items()}
    answers = _ask((seen.text for seen in masked.values() if seen), translate)
    lost = {}
    for part, (before, core, after) in trimmed.items():
        seen = masked[part]
        text = unmask(seen, answers[seen.text]) if seen else None
        # The check is repeated with what was trimmed off: an emoji may have become the end of a URL.
        if text is not None and Counter(hard_texts(before + text + after)) == Counter(hard_texts(part)):
            done[part] = before + text + after, False
        else:
            lost[part] = [(before, False), *_fitting_pieces(core, fits), (after, False)]
    answers = _ask((text for split in lost.values() for text, words in split if words), translate)
    for part, split in lost.items():
        done[part] = "".join((words and bare_words(answers[text])) or text for text, words in split), True
    return done


def _fitting_pieces(text: str, fits: Fits) -> Iterator[tuple[str, bool]]:
    for piece, translatable in pieces(text):
        for part in split_to_fit(piece, fits) if translatable else []:
            yield from pieces(part)
        if not translatable:
            yield piece, False


def _ask(texts: Iterable[str], translate: Translate) -> dict[str, str]:
    """Translate different non-empty strings in one call, or in none where there are none."""
    unique = list(dict.fromkeys(text for text in texts if text))
    answers = translate(list(unique)) if unique else []
    if len(answers) != len(unique):
        raise ValueError(f"translate answered {len(answers)} strings for {len(unique)}; it must answer one each")
    return {text: _BREAK.sub(" ", answer).strip() or text for text, answer in zip(unique, answers, strict=True)}


def _ended_like(source: str, translation: str) -> str:
    """Take away the full stop that models put after half a sentence.

    >>> _ended_like("if it rains ", "wenn es regnet. ")
    'wenn es regnet '
    """
    text = translation.rstrip()
    if not text.endswith(".") or source.rstrip().endswith("."):
        return translation
    return text[:-1] + translation[len(text) :]


def _assemble(
    parsed: list[str | _Sentence], answers: dict[str, _Answer], placed: Iterator[list[str] | None]
) -> TranslatedDocument:
    """Put translations in the places of the sentences, and collect what there is to report."""
    out: list[str] = []
    split: list[SplitSentence] = []
    in_pieces: list[str] = []
    for part in parsed:
        if isinstance(part, str):
            out.append(part)
            continue
        woven, used = next(placed), [part.whole]
        if woven is None:
            used = part.runs
            woven = [
                piece
                for run, mark in zip(part.runs, [*part.marks, ""], strict=True)
                for piece in (part.block.written(_answer(run, answers)), mark)
            ]
        out += woven
        found = [answers[unit] for unit in used if unit in answers]
        parts = tuple(piece for answer in found for piece in answer.parts)
        if any(len(answer.parts) > 1 for answer in found):
            split.append(SplitSentence(part.whole, parts))
        if used is part.runs or any(answer.in_pieces for answer in found):
            in_pieces.append(part.whole)
    return TranslatedDocument("".join(out), tuple(split), tuple(in_pieces))


def _with_tags(
    sentences: list[_Sentence], answers: dict[str, _Answer], locate: Locate | None
) -> list[list[str] | None]:
    """Write the translation of each sentence with its tags; None where its runs have to be translated alone."""
    tagged = [
        Tagged(sentence.tree, answers[sentence.whole].text, sentence.block.written)
        for sentence in sentences
        if sentence.tree
    ]
    woven = iter(set_tags(tagged, lambda text: _answer(text, answers), locate))
    return [next(woven) if sentence.tree else None for sentence in sentences]


def _answer(run: str, answers: dict[str, _Answer]) -> str:
    return answers[run].text if run in answers else run


def _as_seen(part: str) -> str:
    """Give the text as the model would get it, to be measured."""
    core = trim(part)[1]
    seen = mask(core)
    return seen.text if seen else core


def _keep(text: str) -> list[Range]:
    return [(span.start, span.end) for span in protected_spans(text)]
