"""A translator for tests: fast, deterministic, and it behaves like a model where the server can tell.

It writes every word in capitals, K segments side by side. Segments for which no word is left repeat one and
end with DEL. A forced word closes its segment, and the words it displaced move on to the next one.
"""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from starlette.testclient import TestClient

from recoversat.config import Config
from recoversat.inference.translation import Segment, Translation, Verified
from recoversat.serve.process.fork_server import ForkServer
from recoversat.serve.process.metrics import Metrics
from recoversat.serve.service import Service, make_service
from recoversat.serve.settings import ServeSettings
from recoversat.serve.work.batching import Batch, Worker
from recoversat.serve.work.catalog import Catalog, ServedModel, serve_model
from recoversat.serve.work.documents import import_readers
from recoversat.serve.work.translating import BatchKey, Job, Outcome, Task, translate_tasks
from recoversat.text.alignment import Part, Range
from recoversat.text.documents.block import Block
from recoversat.text.documents.translating import TranslatedDocument, translate_blocks, translate_documents
from recoversat.text.glossary import Glossary
from recoversat.text.tokenizer import BpeTokenizer
from recoversat.vocab import SPECIAL_PIECES

WORDS = (
    *("the", "a", "two", "three", "dogs", "cats", "men", "women", "run", "sleep"),
    *("in", "on", "park", "house", "and", "big", "small", "red", "quickly", "today"),
)
MakeClient = Callable[..., TestClient]
VERIFIED = ("balanced", "best", "exact")
SURE, UNSURE = -0.05, -1.2
FORK_SERVER = ForkServer(import_readers)  # of all tests: each start of one takes a while


def last_word(text: str) -> Range:
    return len(text) - len(text.split()[-1]), len(text)


class FakeTranslator:
    """Translate by writing capitals; `seconds` a call; a text with "poison" in it raises."""

    def __init__(self, source: str = "en", target: str = "de", k: int = 4, seconds: float = 0.0, choices: Any = None):
        self.config = Config.model_validate(
            {
                "data": {"src_lang": source, "tgt_lang": target, "max_tokens": 40},
                "model": {"d_model": 2, "n_heads": 1, "max_segments": max(k, 10)},
                "train": {"segments": choices or k},
            }
        )
        self.tokenizer = BpeTokenizer([*SPECIAL_PIECES, *WORDS, *(word.upper() for word in WORDS)])
        self.seconds, self.gate = seconds, threading.Event()
        self.gate.set()
        self.batches: list[list[str]] = []
        self.wanted: list[int | None] = []
        self.modes: list[str | None] = []  # quality of each call
        self.glossaries: list[Glossary | None] = []
        self.busy = threading.Event()

    def set_glossary(self, glossary: Glossary | None) -> None:
        self.glossary = glossary

    def translate(
        self,
        texts: Sequence[str],
        *,
        segments: int | None = None,
        batch_size: int = 32,
        forced: Sequence[Any] | None = None,
        alternatives: int = 0,
        confidence: bool = False,
        quality: str | None = None,
        glossary: Glossary | None = None,
    ) -> list[Translation]:
        self.glossaries.append(glossary)
        self.batches.append(list(texts))
        self.modes.append(quality)
        self.wanted.append(segments)
        self.busy.set()
        self.gate.wait(60)
        time.sleep(self.seconds)
        if any("poison" in text for text in texts):
            raise RuntimeError("a secret sentence with poison in it")
        written = [
            self._one(
                text,
                1 if quality in VERIFIED else segments if isinstance(segments, int) else 4,
                forced[i] if forced else {},
                alternatives,
            )
            for i, text in enumerate(texts)
        ]
        if quality in VERIFIED and len(texts) == 1:  # drafted without the last word of the text
            words = texts[0].upper().split()
            written = [
                replace(one, verified=Verified(words[:-1], [True] * len(words[:-1]) + [False, False]))
                for one in written
            ]
        if confidence:  # the last word is in doubt
            written = [
                replace(one, ids=[7] * len(one.text.split()), confidence=0.5, doubtful=(last_word(one.text),))
                for one in written
            ]
        return written

    def translate_documents(
        self, texts: Sequence[str], *, format: str, language: str, translate: Callable[[list[str]], list[str]]
    ) -> list[TranslatedDocument[str]]:
        return translate_documents(
            texts, translate, language=language, format=format, fits=self._fits, locate=self._first_word
        )

    def translate_blocks(
        self, blocks: Sequence[Block], *, language: str, translate: Callable[[list[str]], list[str]]
    ) -> list[TranslatedDocument[str]]:
        return translate_blocks(blocks, translate, language=language, fits=self._fits, locate=self._first_word)

    def _first_word(self, parts: Sequence[Part]) -> list[Range | None]:
        return [(0, len(part.translation.split()[0])) for part in parts]

    def _fits(self, text: str) -> bool:
        return len(text.split()) <= self.config.data.max_tokens

    def _one(self, text: str, k: int, forced: Any, alternatives: int) -> Translation:
        pieces = self.tokenizer.pieces(range(self.tokenizer.size))
        words = text.upper().split()
        length = -(-len(words) // k)
        segments: list[Segment] = []
        for s in range(k):
            room = length if s < k - 1 else len(words)
            mine, words, deleted = words[:room], words[room:], False
            if not mine:
                mine, deleted = [text.upper().split()[-1]], True
            for (segment, position), token in sorted(forced.items()):
                if segment == s and position <= len(mine):
                    words = mine[position:] * (not deleted) + words
                    mine, deleted = [*mine[:position], pieces[token]], False
            segments.append(self._segment(mine, deleted, alternatives))
        for at, (left, right) in enumerate(itertools.pairwise(segments), 1):
            twice = left.pieces[-1:] == right.pieces[:1] and text.upper().split().count(left.pieces[-1]) == 2
            if twice and right.ending != "del":
                segments[at] = replace(right, left_out=frozenset({0}))
        kept = " ".join(w for segment in segments if segment.ending != "del" for w in segment.pieces[segment.overlap :])
        return Translation(text, kept, segments, max(len(segment.log_probs) for segment in segments))

    def _segment(self, words: list[str], deleted: bool, alternatives: int) -> Segment:
        end = "<del>" if deleted else "</s>"
        log_probs = [SURE if len(word) % 2 else UNSURE for word in words] + [SURE]
        others = [("THE", -1.5), ("BIG", -2.5), ("</s>", -3.0)]
        best = [
            sorted([mine, *others], key=lambda choice: -choice[1])[:alternatives]
            for mine in zip([*words, end], log_probs, strict=True)
        ]
        ids = self.tokenizer.encode([" ".join(words)])[0]
        return Segment(
            " ".join(words), words, ids, "del" if deleted else "eos", log_probs, best if alternatives else []
        )


def fake_model(source: str = "en", target: str = "de", **options: Any) -> ServedModel:
    """Serve a fake translator."""
    translator = FakeTranslator(source, target, **options)
    return serve_model(source, target, translator)


class InThisProcess(Worker[BatchKey, Task, Outcome]):
    """A worker without a process of its own."""

    @property
    def is_well(self) -> bool:
        return True

    def __init__(self, settings: ServeSettings, models: Sequence[ServedModel], metrics: Metrics) -> None:
        self._settings, self._catalog, self._metrics = settings, Catalog(models), metrics

    def prepare(self, closed: threading.Event) -> None:
        pass

    def run(self, batch: Batch[BatchKey, Task, Outcome], errand: Callable[[], Any]) -> None:
        key, settings = batch.group, self._settings
        model = self._catalog.route(key.source, key.target, key.segments)
        assert model is not None
        job = Job(model, key, settings.batch_size, settings.piece_limit, self._metrics.count_decoding)
        batch.finish(translate_tasks(job, batch.tasks))

    def close(self) -> None:
        pass


def fake_service(settings: ServeSettings, models: Sequence[ServedModel]) -> Service:
    """Put a service together whose worker runs in this process."""
    metrics = Metrics()
    service = make_service(settings, models, [InThisProcess(settings, models, metrics)], metrics)
    service.fork_server = FORK_SERVER
    return service
