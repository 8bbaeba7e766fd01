"""Translate documents as people have them: any length, any line breaks, with placeholders, in any known format.

    document -> blocks -> sentences -> (over-long: parts) -> masked -> translate -> unmasked -> the same places

`translate` is called for all sentences of all texts at once, and once more for the pieces of those in which it lost or
changed something that must survive. Then the tags of HTML: what stands in them is translated to be found again,
`locate` says where it went otherwise, and where nothing helps, the text between tags is translated by itself.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import AnyStr, Generic

from recoversat.text.documents import Languages, parse
from recoversat.text.documents.block import Block
from recoversat.text.documents.elements import Element, element_tree
from recoversat.text.documents.tags import Locate, Tagged, set_tags
from recoversat.text.placeholders import bare_words, hard_texts, has_words, mask, pieces, protected_spans, trim, unmask
from recoversat.text.sentences import Range, sentence_spans, split_to_fit

Translate = Callable[[list[str]], list[str]]
Fits = Callable[[str], bool]

_BREAK = re.compile(r"[\n\r\t\v\f\x1c-\x1e\x85\u2028\u2029]+")

_SPACES = re.compile(" {2,}")


@dataclass(frozen=True)
class TranslatedDocument(Generic[AnyStr]):
    """A translation, and the sentences that were too long for the model and translated in parts."""

    text: AnyStr  # bytes where the format is no text
    split: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Sentence:
    """Runs of text with tags between them, to be translated; `tree` where the tags make elements."""

    block: Block
    runs: list[str]
    marks: list[str]
    tree: Element | None

    @property
    def whole(self) -> str:
        """The sentence without its tags, and without the second of two spaces that stand beside one."""
        collapses = self.block.markup and not self.block.keeps_spaces
        return _SPACES.sub(" ", "".join(self.runs)) if collapses else "".join(self.runs)

    def run_by_run(self, answers: Mapping[str, str]) -> str:
        """Give the translation of every run by itself, with the tags where they were."""
        runs = [self.block.written(answers.get(run, run)) for run in self.runs]
        return "".join(piece for pair in zip(runs, [*self.marks, ""], strict=True) for piece in pair)


def translate_documents(
    texts: Sequence[AnyStr],
    translate: Translate,
    *,
    language: str,
    target: str = "",
    format: str = "text",
    fits: Fits = lambda part: True,
    locate: Locate | None = None,
) -> list[TranslatedDocument[AnyStr]]:
    r"""Translate texts written in `language` into `target`, keeping white space, placeholders and tags.

    `translate` gets different, non-empty, single-line strings that fit, and answers one string for each; the first
    call is for the sentences themselves. Where it answers nothing at all, the source stands. In plain text a line break
    or tab ends a sentence and stays where it is; in HTML only tags end one, and line breaks within a sentence become
    spaces.

    >>> shout = lambda sentences: [sentence.upper() for sentence in sentences]
    >>> translate_documents(["Hi {name}!  Bye.\n"], shout, language="en")[0].text
    'HI {name}!  BYE.\n'
    """
    documents = [parse(text, format, Languages(language, target)) for text in texts]
    blocks = [block for document in documents for block in document.blocks]
    done = iter(translate_blocks(blocks, translate, language=language, fits=fits, locate=locate))
    results = []
    for document in documents:
        mine = list(islice(done, len(document.blocks)))
        split = tuple(sentence for block in mine for sentence in block.split)
        text = document.put_back([block.text for block in mine])
        results.append(TranslatedDocument(document.in_language(text, language, target) if target else text, split))
    return results


def translate_blocks(
    blocks: Sequence[Block],
    translate: Translate,
    *,
    language: str,
    fits: Fits = lambda part: True,
    locate: Locate | None = None,
) -> list[TranslatedDocument[str]]:
    """Translate blocks of documents, whatever their formats: the road of `translate_documents` without its ends."""
    parsed = [_parsed(block, language) for block in blocks]
    sentences = [part for block in parsed for part in block if isinstance(part, _Sentence)]
    answers: dict[str, str] = {}  # of all that was translated by itself
    long: set[str] = set()  # what of it had to be cut

    def fits_as_seen(part: str) -> bool:
        return fits(_as_seen(part))

    def ask(units: Iterable[str]) -> None:
        new = [unit for unit in dict.fromkeys(units) if unit not in answers and has_words(unit)]
        parts = {unit: split_to_fit(unit, fits_as_seen, _keep(unit)) for unit in new}
        done = _translate_parts((part for split in parts.values() for part in split), translate, fits_as_seen)
        answers.update((unit, done[unit]) for unit, split in parts.items() if len(split) == 1)
        cut = {unit: split for unit, split in parts.items() if len(split) > 1}
        for unit, split in cut.items():
            answers[unit] = _safe(unit, "".join(_ended_like(part, done[part]) for part in split))
        long.update(cut)

    ask(unit for sentence in sentences for unit in ([sentence.whole] if sentence.tree else sentence.runs))
    ask(element.text for sentence in sentences if sentence.tree for element in sentence.tree.descendants())
    woven = _with_tags(sentences, answers, locate)
    ask(run for sentence, text in zip(sentences, woven, strict=True) if text is None for run in sentence.runs)
    pairs = zip(sentences, woven, strict=True)
    written = iter([sentence.run_by_run(answers) if text is None else text for sentence, text in pairs])
    results = []
    for source, block in zip(blocks, parsed, strict=True):
        done = _side_by_side(source.text, [part if isinstance(part, str) else next(written) for part in block])
        mine = [part for part in block if isinstance(part, _Sentence)]
        split = tuple(one.whole for one in mine if long.intersection([one.whole, *one.runs]))
        results.append(TranslatedDocument(done, split))
    return results


def _parsed(block: Block, language: str) -> list[str | _Sentence]:
    """Part a block into sentences and what is copied between them."""
    parsed: list[str | _Sentence] = []
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
    return [*parsed, block.source(position, len(block.text), slice(done_tags, len(block.tags)))]


def _translate_parts(parts: Iterable[str], translate: Translate, fits: Fits) -> dict[str, str]:
    """Translate strings that fit, in pieces where something that must survive was lost."""
    done = {part: part for part in parts}
    trimmed = {part: trim(part) for part in done if has_words(part)}
    # What cannot be cut to fit, a word grown together with placeholders, goes in pieces at once.
    masked = {part: mask(core) if fits(part) else None for part, (_, core, _) in trimmed.items()}
    answers = _ask((seen.text for seen in masked.values() if seen), translate)
    lost = {}
    for part, (before, core, after) in trimmed.items():
        seen = masked[part]
        text = unmask(seen, answers[seen.text]) if seen else None
        # The check is repeated with what was trimmed off: an emoji may have become the end of a URL.
        if text is not None and _keeps_spans(part, before + text + after):
            done[part] = before + text + after
        else:
            lost[part] = [(before, False), *_fitting_pieces(core, fits), (after, False)]
    answers = _ask((text for split in lost.values() for text, words in split if words), translate)
    for part, split in lost.items():
        done[part] = _safe(part, "".join((words and bare_words(answers[text])) or text for text, words in split))
    return done


def _side_by_side(source: str, parts: list[str]) -> str:
    """Put gaps and sentences in turn together; a blank parts sentences that would grow together into an address."""
    done = "".join(parts)
    if "" not in parts[2:-1:2] or Counter(hard_texts(done)) <= Counter(hard_texts(source)):
        return done
    return "".join([*parts[:2], *(part or " " for part in parts[2:-1]), *parts[-1:]])


def _keeps_spans(source: str, translation: str) -> bool:
    return Counter(hard_texts(translation)) == Counter(hard_texts(source))


def _safe(source: str, translation: str) -> str:
    """Let the source stand where words have grown together with a span: `éwww.x.org` must not become `bwww.x.org`."""
    return translation if _keeps_spans(source, translation) else source


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


def _with_tags(sentences: list[_Sentence], answers: Mapping[str, str], locate: Locate | None) -> list[str | None]:
    """Write the translation of each sentence with its tags; None where its runs have to be translated alone."""
    tagged = [Tagged(one.tree, answers[one.whole], one.block.written) for one in sentences if one.tree]
    woven = iter(set_tags(tagged, lambda text: answers.get(text, text), locate))
    return [next(woven) if sentence.tree else None for sentence in sentences]


def _as_seen(part: str) -> str:
    """Give the text as the model would get it, to be measured."""
    core = trim(part)[1]
    seen = mask(core)
    return seen.text if seen else core


def _keep(text: str) -> list[Range]:
    return [(span.start, span.end) for span in protected_spans(text)]
