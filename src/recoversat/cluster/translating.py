"""A worker that translates shards, with one model and the settings of the run."""

import gzip
import json
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import cast

from recoversat.cluster.inputs import open_input
from recoversat.cluster.shards import RunStoppedError, Shard, Worker
from recoversat.engines.loading import ComputeType
from recoversat.files.model_folder import model_fingerprint, model_folder
from recoversat.files.storage import atomic_file
from recoversat.pipeline.options import TranslateOptions

Translate = Callable[[list[str]], list[str]]


def run_settings(asked: TranslateOptions) -> dict[str, object]:
    """Describe all that a result depends on beside the text: the model by its content, never by its place."""
    return {
        "model": model_fingerprint(_folder(asked)), "from": asked.source, "to": asked.target,
        "segments": asked.segments, "batch_size": asked.batch_size, "beam": asked.beam, "device": asked.device,
        "compute_type": asked.compute_type, "jsonl": asked.jsonl, "results": "json",
    }  # fmt: skip


def _folder(asked: TranslateOptions) -> Path:
    return model_folder(asked.model, asked.source, asked.target).resolve()


def load_translator(asked: TranslateOptions, fingerprint: str, threads: int = 1) -> Worker:
    """Make a worker here, where it is called; refuse a model that is not the one of the run.

    `asked` comes with the languages that were found and the device of a worker.
    """
    from recoversat.pipeline.translate_files import translate_texts
    from recoversat.translator import WINDOW, Translator

    guard = ModelGuard(_folder(asked), fingerprint)
    guard.check()
    translator = Translator(
        _folder(asked), source=asked.source, target=asked.target, device=asked.device,
        compute_type=cast("ComputeType", asked.compute_type), intra_threads=threads,
    )  # fmt: skip
    size = asked.batch_size * WINDOW

    def translate(texts: list[str]) -> list[str]:
        blocks = (texts[at : at + size] for at in range(0, len(texts), size))
        return [one.text for block in blocks for one in translate_texts(translator, block, asked)]

    guard.check()
    return shard_translator(translate, guard.check, jsonl=asked.jsonl)


def shard_translator(translate: Translate, check: Callable[[], None], *, jsonl: bool) -> Worker:
    """Return what reads the text of a shard, translates it and writes its result."""
    opened = lru_cache(maxsize=1)(partial(open_input, jsonl=jsonl))  # shards come in the order of the input

    def finish(shard: Shard) -> None:
        path, part = shard.content
        translations = translate(opened(path).texts(part))
        check()
        write_result(shard.result, translations)

    return finish


class ModelGuard:
    """Notices that the files of a model change: what is in memory may be mapped from them."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._folder, self._fingerprint = folder, fingerprint
        self._seen: list[tuple[str, int, int, int]] = []

    def check(self) -> None:
        """Stop the run where the model is another one; its files are read again only where they look different."""
        if (now := list(self._states())) == self._seen:
            return
        if (found := model_fingerprint(self._folder)) != self._fingerprint:
            raise RunStoppedError(
                f"{self._folder}: the model is not the one this run began with ({self._fingerprint}, now {found}). "
                "Nothing it wrote was kept. Put the old model back, or write elsewhere"
            )
        self._seen = now

    def _states(self) -> Iterator[tuple[str, int, int, int]]:
        for path in sorted(self._folder.rglob("*")):
            state = path.stat()
            yield str(path), state.st_ino, state.st_size, state.st_mtime_ns


def write_result(path: Path, translations: list[str]) -> None:
    """Write a line of JSON for each translation, which may have line breaks; compressed, so that damage is noticed."""
    with atomic_file(path) as scratch:
        text = "".join(f"{json.dumps(translation, ensure_ascii=False)}\n" for translation in translations)
        scratch.write_bytes(gzip.compress(text.encode(), 6, mtime=0))


def read_result(path: Path) -> list[str]:
    """Read the translations of a result, exactly as they were written."""
    return list(map(json.loads, gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]))
