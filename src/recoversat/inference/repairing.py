"""What a repair is, and how those of `recoversat.inference.repairs` are put to work."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from recoversat.inference.assembling import Draft
from recoversat.inference.repairs import REPAIRS
from recoversat.inference.request import Request
from recoversat.text.parts import Parts
from recoversat.text.placeholders import bare_words, pieces

if TYPE_CHECKING:
    from recoversat.translator import Translator

Write = Callable[[list[str], Request], list[Draft]]
WriteFor = Callable[["Repairs", list[str], Request], list[Draft]]
_ASKED = ("cut", "prepare", "restore", "copies", "doubts", "mend")  # of every sentence


class Repair:
    """One repair: it overrides what it needs, and is asked for nothing else."""

    does: ClassVar[frozenset[str]] = frozenset()  # what it overrides of that which it may be asked for

    def __init_subclass__(cls) -> None:
        cls.does = frozenset(name for name in _ASKED if getattr(cls, name) is not getattr(Repair, name))

    def __init__(self, name: str, translator: "Translator", request: Request) -> None:
        self.name, self.translator, self.request = name, translator, request

    def cut(self, text: str) -> Parts | None:
        """Cut a text into parts that are translated by themselves; None where it is one."""
        return None

    def prepare(self, text: str) -> str:
        """Return what the model is to read instead of a text."""
        return text

    def restore(self, translation: str, given: str) -> str:
        """Return what the reader gets for a text that `prepare` was given."""
        return translation

    def copies(self, text: str) -> bool:
        """Say whether a text is its own translation, so that nothing need be decoded."""
        return False

    def doubts(self, draft: Draft) -> bool:
        """Say whether a draft is to be written again; nobody asks where the caller has forced words."""
        return False

    def rewrite(self, drafts: list[Draft], write: Write) -> list[Draft]:
        """Write the doubted ones again; `steps` counts what that took."""
        return drafts

    def is_better(self, again: Draft, first: Draft) -> bool:
        """Choose between the two."""
        return True

    def mend(self, draft: Draft) -> Draft:
        """Change a draft without decoding; the same object where there is nothing to do."""
        return draft

    def slowly(self) -> Request:
        """Return the request with the K that makes the fewest mistakes."""
        return replace(self.request, segments=min(self.translator.config.train.segment_choices), beam=1)

    def in_pieces(self, texts: list[str], write: Write) -> list[str]:
        """Translate what stands between numbers by itself, so that they stay where they are."""
        split = [pieces(text) for text in texts]
        asked = list(dict.fromkeys(piece for cut in split for piece, has_words in cut if has_words))
        said = {draft.source.text: bare_words(draft.text) for draft in (write(asked, self.slowly()) if asked else [])}
        return ["".join((has_words and said[piece]) or piece for piece, has_words in cut) for cut in split]


def repairs_for(translator: "Translator", request: Request) -> list[Repair]:
    """Return the repairs that a model's settings and a request ask for, in their order; a glossary comes last."""
    decode = translator.config.decode
    names = [name for name in REPAIRS if getattr(decode, name)] if request.repairs and decode.repairs == "model" else []
    chain = [_class_of(name)(name, translator, request) for name in names]
    if request.glossary:
        from recoversat.inference.glossary import ObeyGlossary

        chain.append(ObeyGlossary("glossary", translator, request))
    return chain


class Repairs:
    """Repairs in their order, sorted once by what they do: most do little, and asking all of them takes longer."""

    def __init__(self, repairs: Sequence[Repair]) -> None:
        self._all = list(repairs)
        self._cutting = self._that("cut")
        self._reading = self._that("prepare", "restore")
        self._copying = self._that("copies")
        self._after = self._that("doubts", "mend")

    def cut(self, text: str) -> Parts:
        """Cut a text as repairs want it, each cutting what those before have left whole."""
        parts = Parts([text], ["", ""])
        for repair in self._cutting:
            parts = parts.cut_further(repair.cut)
        return parts

    def prepared(self, text: str) -> list[str]:
        """Return what each repair that changes the source was given, and at last what the model is to read."""
        stages = [text]
        for repair in self._reading:
            stages.append(repair.prepare(stages[-1]))
        return stages

    def restored(self, draft: Draft, stages: Sequence[str]) -> Draft:
        """Undo in a translation what each repair has done to the text it was given."""
        for repair, text in zip(reversed(self._reading), reversed(stages[:-1]), strict=True):
            said = repair.restore(draft.text, text)
            draft = draft if said == draft.text else _named(draft.saying(said), repair)
        return draft

    def copying(self, text: str) -> tuple[str, ...]:
        """Name the repairs by which a text is its own translation."""
        return tuple(repair.name for repair in self._copying if repair.copies(text))

    def after_decoding(self, drafts: list[Draft], write: WriteFor, *, may_rewrite: bool) -> list[Draft]:
        """Let every repair look at all drafts; what it has written again passes through those before it."""
        for repair in self._after:
            if may_rewrite and "doubts" in repair.does:
                drafts = _rewritten(drafts, repair, partial(self._write_before, repair, write))
            if "mend" in repair.does:
                drafts = [_mended(draft, repair) for draft in drafts]
        return drafts

    def _write_before(self, repair: Repair, write: WriteFor, texts: list[str], request: Request) -> list[Draft]:
        """Write texts for a repair, with those before it."""
        return write(Repairs(self._all[: self._all.index(repair)]), texts, request)

    def _that(self, *any_of: str) -> list[Repair]:
        return [repair for repair in self._all if not repair.does.isdisjoint(any_of)]


def _rewritten(drafts: list[Draft], repair: Repair, write: Write) -> list[Draft]:
    """Write again what a repair doubts, and keep what is better."""
    doubted = [i for i, draft in enumerate(drafts) if draft.decoded.segments and repair.doubts(draft)]
    if not doubted:
        return drafts
    results = list(drafts)
    for i, again in zip(doubted, repair.rewrite([drafts[i] for i in doubted], write), strict=True):
        first, better = drafts[i], repair.is_better(again, drafts[i])
        results[i] = replace(_named(again, repair) if better else first, steps=first.steps + again.steps)
    return results


def _mended(draft: Draft, repair: Repair) -> Draft:
    """Let a repair change a draft, and have its name noted."""
    if not draft.decoded.segments or (mended := repair.mend(draft)) is draft:
        return draft
    return _named(mended, repair)


def _named(draft: Draft, repair: Repair) -> Draft:
    return draft if repair.name in draft.repairs else replace(draft, repairs=(*draft.repairs, repair.name))


@cache
def _class_of(name: str) -> type[Repair]:
    module = import_module(f"recoversat.inference.repairs.{name}")
    found: type[Repair] = getattr(module, name.title().replace("_", ""))
    return found
