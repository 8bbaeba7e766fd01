"""Other translations of a sentence: where the model was least sure, take its second choice and write again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recoversat.decoding.segmentwise import Forced
from recoversat.inference.translation import Translation
from recoversat.serve.work.catalog import ServedModel
from recoversat.text.numbers import wrong_numbers
from recoversat.vocab import NEVER_EMITTED

TRIES = 2  # decodings for each alternative wanted: some turn out alike


@dataclass(frozen=True)
class OtherTranslations:
    """For each sentence, as the model saw it: its translation and others, the best first."""

    texts: dict[str, list[str]]
    translate: Callable[[list[str]], list[str]]  # for what was not seen before: pieces of a sentence

    def nth(self, nth: int, sentences: list[str]) -> list[str]:
        """Return the n-th alternative of each sentence, or its translation where there are fewer."""
        unknown = [sentence for sentence in sentences if sentence not in self.texts]
        written = zip(unknown, self.translate(unknown) if unknown else [], strict=True)
        self.texts.update({sentence: [text] for sentence, text in written})
        known = [self.texts[sentence] for sentence in sentences]
        return [texts[nth + 1] if nth + 1 < len(texts) else texts[0] for texts in known]


@dataclass(frozen=True)
class _Doubt:
    """A place where another token was nearly as likely."""

    gap: float
    place: tuple[int, int]
    token: int


def other_translations(
    model: ServedModel,
    translations: Sequence[Translation],
    forced: Sequence[Forced],
    wanted: int,
    translate: Callable[[list[str], int | None, list[Forced] | None], list[Translation]],
) -> OtherTranslations:
    """Decode each sentence again with the second choice forced where the first one was least certain.

    What was `forced` the first time (one mapping a sentence) stays forced; `translate` gets sources, K and tokens.
    """
    again: dict[int, list[tuple[str, Forced]]] = {}  # by K: a place is one of that division
    for translation, given in zip(translations, forced, strict=True):
        doubts = sorted(_doubts(model, translation, given), key=lambda doubt: doubt.gap)[: TRIES * wanted]
        again.setdefault(len(translation.segments), []).extend(
            (translation.source, {**given, doubt.place: doubt.token}) for doubt in doubts
        )
    written = [
        other
        for k, pairs in again.items()
        if pairs
        for other in translate([source for source, _ in pairs], k, [tokens for _, tokens in pairs])
    ]
    texts = {}
    for translation in translations:
        others = [t for t in written if t.source == translation.source and _says_as_much(t, translation)]
        others.sort(key=lambda t: -t.score)
        texts[translation.source] = list(dict.fromkeys([translation.text, *(t.text for t in others)]))

    return OtherTranslations(texts, lambda sentences: [done.text for done in translate(sentences, None, None)])


def _says_as_much(other: Translation, translation: Translation) -> bool:
    """Refuse a translation that says nothing, or has more wrong numbers than the first one."""
    source = translation.source
    return bool(other.text.strip()) and wrong_numbers(source, other.text) <= wrong_numbers(source, translation.text)


def _doubts(model: ServedModel, translation: Translation, forced: Forced) -> list[_Doubt]:
    doubts = []
    for s, segment in enumerate(translation.segments):
        for position, (chosen, best) in enumerate(zip(segment.log_probs, segment.alternatives, strict=False)):
            if (s, position) in forced:
                continue
            others = [(piece, log_prob) for piece, log_prob in best if log_prob != chosen]
            token = model.vocabulary.get(others[0][0]) if others else None
            if token is not None and token not in NEVER_EMITTED:
                doubts.append(_Doubt(chosen - others[0][1], (s, position), token))
    return doubts
