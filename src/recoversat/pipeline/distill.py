"""Sequence-level distillation: the training side translated by a teacher, in shards that survive a kill."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from recoversat.cluster.manifest import shard_key
from recoversat.cluster.run import work_off
from recoversat.cluster.shards import Shard, Worker
from recoversat.cluster.translating import ModelGuard
from recoversat.data.corpus import Corpus, Sentences, open_corpus
from recoversat.data.prepare import write_corpus_files
from recoversat.engines.engine import Engine, Options
from recoversat.engines.loading import ComputeType, EngineOptions, load_engine
from recoversat.errors import UserError
from recoversat.files.identity import claim
from recoversat.files.model_folder import (
    WEIGHTS,
    model_fingerprint,
    origin_of,
    read_config,
    resolve_model,
    weights_fingerprint,
)
from recoversat.files.storage import atomic_file, atomic_folder, sweep_partial
from recoversat.measuring.quality.metrics import corpus_bleu
from recoversat.pipeline.options import DistillOptions
from recoversat.show.progress import progress
from recoversat.text.directions import directed, encode_directed
from recoversat.text.tokenizer import vocabulary_fingerprint
from recoversat.vocab import EOS

SETTINGS = "settings.json"
_Ids = list[int]
_Done = Callable[[int], None]


def distill(job: DistillOptions, title: str = "distill") -> dict[str, Any]:
    """Translate the training side of a corpus into a new corpus; started again after a kill it continues.

    Several processes (torchrun) take turns at the shards; the first one joins them. A crew may work on a Ray cluster,
    or on its share alone, which nobody joins before the same is called without a share. Returns what happened.
    """
    crew, asked = job.crew, job
    if crew.ray:  # workers may be anywhere
        places = {name: getattr(job, name).resolve() for name in ("teacher", "corpus", "out")}
        job = replace(job, device=crew.device if job.device == "auto" else job.device, **places)
    corpus = open_corpus(job.corpus)
    if job.out.exists():
        if job.rank:  # the others were done before this process had begun
            return {}
        shutil.rmtree(job.shards, ignore_errors=True)
        raise UserError(f"{job.out} exists already; choose another folder or remove it")
    settings = _settings(job, corpus)
    engine = None if crew.ray else _teacher_engine(job)  # what cannot be loaded claims no shards
    _claim_shards(job, settings)
    shards = list(_shards(job, corpus, settings))
    if crew.ray or crew.share:
        load = partial(_load_teacher, job, model_fingerprint(resolve_model(job.teacher)), engine)
        work_off(title, shards, load, crew, state=job.shards)
        if crew.share:
            return {}
    engine = engine or _teacher_engine(asked)  # on what there is here: a cluster's head may have no GPU
    missing = [shard for shard in shards[job.rank :: job.world] if not shard.is_done]
    sentences = sum(shard.sentences for shard in missing)
    began = time.monotonic()
    with progress(title, sentences, quiet=job.quiet) as bar:
        for shard in missing:
            _translate_shard(job, engine, corpus, shard, bar.advance)
    seconds = time.monotonic() - began
    if job.rank:
        return {}
    while not all(shard.is_done for shard in shards):  # others are at work
        time.sleep(0.5)
    _, known = read_config(resolve_model(job.teacher))
    facts = settings | {"teacher_bleu": _validation_bleu(job, engine, corpus)} | origin_of(known)
    report = _join(job, corpus, shards, facts)
    rate = {"sentences_per_second": round(sentences / seconds, 1)} if sentences else {}
    return report | {"teacher_bleu": facts["teacher_bleu"]} | rate


def _settings(job: DistillOptions, corpus: Corpus) -> dict[str, Any]:
    """Return what decides about the text, or refuse a teacher that cannot teach this corpus."""
    teacher = resolve_model(job.teacher)
    if vocabulary_fingerprint(teacher) != vocabulary_fingerprint(job.corpus):
        raise UserError(
            f"{job.teacher} and {job.corpus} have different vocabularies; distill the corpus it was trained on,"
            f" or prepare this one with --tokenizer-from {job.teacher}"
        )
    config, _ = read_config(teacher)
    own, asked = config.data, corpus.config
    if own.tagged != asked.tagged or (own.tagged and set(own.directions) != set(asked.directions)):
        raise UserError(
            f"{job.teacher} translates {own.languages}, {job.corpus} is {asked.languages}; prepare it again with"
            f" --set data.src_lang={own.src_lang} --set data.tgt_lang={own.tgt_lang}"
            f" --set data.both_directions={str(own.both_directions).lower()}"
        )
    if 1 not in config.train.segment_choices:
        raise UserError(f"{job.teacher}: a teacher writes one segment; train it with train.segments=1")
    return {
        "teacher": weights_fingerprint(teacher) if _has_weights(teacher) else model_fingerprint(teacher),
        "corpus": corpus.fingerprint,
        "beam": job.beam,
        "length_penalty": config.decode.length_penalty,
        "shard_size": job.shard_size,
        "compute_type": job.compute_type,
    } | ({} if config.decode.beam_rule == "exact" else {"beam_rule": config.decode.beam_rule})


def _claim_shards(job: DistillOptions, settings: dict[str, Any]) -> None:
    """Record whose shards these are, or refuse to mix them with those of other settings."""
    job.shards.mkdir(parents=True, exist_ok=True)
    if job.world == 1 and not job.shard:  # else others may be writing
        sweep_partial(job.shards)
    refusal = f"{job.shards} holds shards made with other settings; remove it or write elsewhere"
    claim(job.shards / SETTINGS, settings, refusal)


def _teacher_engine(job: DistillOptions) -> Engine:
    """Load the teacher as a translator would, but torch weights, where they are, before an int8 export of them."""
    folder = resolve_model(job.teacher)
    config, _ = read_config(folder)
    if config.model.kind != "segments":
        raise UserError(
            f"{job.teacher}: a model of kind {config.model.kind!r} cannot teach; give an autoregressive one"
        )
    if job.compute_type != "default" or not _has_weights(folder):
        return load_engine(folder, config.model, EngineOptions(job.device, cast(ComputeType, job.compute_type)))
    from recoversat.model.device import torch_device

    place = torch_device(job.device)
    return load_engine(
        folder, config.model, EngineOptions(str(place), "float16" if place.type == "cuda" else "float32")
    )


def _has_weights(teacher: Path) -> bool:
    return (teacher / WEIGHTS).is_file()


def _load_teacher(job: DistillOptions, fingerprint: str, loaded: Engine | None) -> Worker:
    """Load the teacher where this is called, unless it is loaded there, as long as it is the one of the run."""
    guard = ModelGuard(resolve_model(job.teacher), fingerprint)
    guard.check()
    engine, corpus = loaded or _teacher_engine(job), open_corpus(job.corpus)
    return lambda shard: _translate_shard(job, engine, corpus, shard, lambda done: guard.check())


def _shards(job: DistillOptions, corpus: Corpus, settings: dict[str, Any]) -> Iterator[Shard]:
    """Yield shards that hold the range of their sentences."""
    for number, start in enumerate(range(0, len(corpus.train), job.shard_size)):
        chosen = range(start, min(start + job.shard_size, len(corpus.train)))
        name = f"{job.corpus.name}, sentences {chosen.start + 1:,}-{chosen.stop:,}"
        result = job.shards / f"shard-{number:06d}.npz"
        yield Shard(shard_key(settings, str(number)), name, len(chosen), result, chosen)


def _translate_shard(job: DistillOptions, engine: Engine, corpus: Corpus, shard: Shard, done: _Done) -> None:
    targets = _translate(job, engine, [corpus.train.src[i].tolist() for i in shard.content], done)
    with atomic_file(shard.result) as scratch, open(scratch, "wb") as stream:
        laid = Sentences.of(targets)
        np.savez(stream, ids=laid.ids, offsets=laid.offsets)


def _translate(job: DistillOptions, engine: Engine, sources: Sequence[_Ids], done: _Done) -> list[_Ids]:
    """Translate sources in batches of like length; what did not end within its limit comes back empty."""
    write = _writer(job, engine)
    targets: list[_Ids] = [[] for _ in sources]
    for batch in _batches(sources, job.batch_tokens):
        for i, tokens in zip(batch, write([sources[i] for i in batch]), strict=True):
            targets[i] = tokens
        done(len(batch))
    return targets


def _writer(job: DistillOptions, engine: Engine) -> Callable[[list[_Ids]], list[_Ids]]:
    """Return what writes a batch: greedily, or with a beam."""
    config, _ = read_config(resolve_model(job.teacher))
    settings = config.decode
    options = Options(
        settings.extra_steps, settings.length_penalty, settings.beam_rule == "transformers", scores=job.beam > 1,
        shortlist=settings.shortlist, verified=settings.verify_shortlist,
    )  # fmt: skip

    def write(sources: list[_Ids]) -> list[_Ids]:
        if job.beam == 1:
            written = engine.decode(sources, np.ones(len(sources), np.int64), options)
        else:
            written = engine.search(sources, job.beam, options)
        found = [one.segments[0] for one in written]
        return [ids[:-1] if ids[-1] == EOS else [] for ids in found]

    return write


def _batches(sources: Sequence[_Ids], batch_tokens: int) -> Iterator[list[int]]:
    """Group sources of like length, longest first, so that the largest batch comes before all others.

    Sizes are powers of two, as the GPU engine rounds them up to: few sizes mean few graphs to capture.
    """
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    while order:
        most = max(1, batch_tokens // max(1, len(sources[order[0]])))
        size = 1 << (most.bit_length() - 1)
        yield order[:size]
        order = order[size:]


def _validation_bleu(job: DistillOptions, engine: Engine, corpus: Corpus) -> float | None:
    if not corpus.valid_src:
        return None
    each = directed(corpus.valid_src, corpus.config, corpus.config.tgt_lang)
    targets = _translate(job, engine, encode_directed(each, corpus.tokenizer, corpus.config), lambda n: None)
    return round(corpus_bleu([corpus.tokenizer.decode(ids) for ids in targets], corpus.valid_references).value, 2)


def _join(job: DistillOptions, corpus: Corpus, shards: list[Shard], facts: dict[str, Any]) -> dict[str, Any]:
    """Write the distilled corpus whole, in the old order, and remove the shards."""
    src, tgt = [], []
    for shard in shards:
        with np.load(shard.result, allow_pickle=False) as arrays:
            written = Sentences(arrays["ids"], arrays["offsets"])
        for i, n in zip(shard.content, range(len(written)), strict=True):
            if len(written[n]):
                src.append(corpus.train.src[i].tolist())
                tgt.append(written[n].tolist())
    if not src:
        raise UserError(f"{job.teacher} wrote nothing for any sentence; train the teacher longer")
    report = {"read": len(corpus.train), "dropped": len(corpus.train) - len(src), "kept": len(src)}
    if job.with_references:
        report |= {"references": len(corpus.train)}
        src += [corpus.train.src[i].tolist() for i in range(len(corpus.train))]
        tgt += [corpus.train.tgt[i].tolist() for i in range(len(corpus.train))]
    with atomic_folder(job.out) as folder:
        corpus.tokenizer.save(folder)
        dtype = corpus.train.src.ids.dtype
        Sentences.of(src, dtype).save(folder, "train.src")
        Sentences.of(tgt, dtype).save(folder, "train.tgt")
        valid = list(zip(corpus.valid_src, corpus.valid_tgt, strict=True))
        write_corpus_files(folder, corpus.config, valid, {"report": report, "distilled": facts})
    shutil.rmtree(job.shards)
    return report
