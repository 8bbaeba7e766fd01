"""All a worker needs to answer requests, put together in one place."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

from recoversat.serve.http.api_keys import ApiKey, find_api_key, read_api_keys
from recoversat.serve.http.rate_limit import RateLimiter, caller_of
from recoversat.serve.http.refusals import RefusalError
from recoversat.serve.process.metrics import Metrics
from recoversat.serve.settings import ServeSettings
from recoversat.serve.work.batching import Batcher, BatchLimits
from recoversat.serve.work.catalog import Catalog, ServedModel, load_models, model_sources
from recoversat.serve.work.languages import Detected, LanguageDetector
from recoversat.serve.work.translating import Manner, Outcome, Task, translate_tasks

log = logging.getLogger("recoversat.serve")

BATCH_CHARACTERS = 8_000  # in one batch: a short text need not wait for a whole book


@dataclass
class Service:
    """The parts of a running server; `draining` means it is shutting down."""

    settings: ServeSettings
    catalog: Catalog
    detector: LanguageDetector
    batcher: Batcher[Manner, Task, Outcome]
    metrics: Metrics
    limiter: RateLimiter
    keys: list[ApiKey]
    draining: bool = False

    def admit(self, api_key: str, address: str) -> None:
        """Refuse whoever has no valid key or asks too often."""
        rate = self.settings.rate_limit
        if self.keys:
            if not api_key:
                raise RefusalError(400, "Please contact the server operator to get an API key")
            key = find_api_key(self.keys, api_key)
            if key is None:
                raise RefusalError(403, "Invalid API key")
            rate = key.rate_limit or rate
        if rate is None:
            return
        wait = self.limiter.wait_time(caller_of(api_key if self.keys else "", address), rate)
        if wait:
            raise RefusalError(429, f"Slowdown: {rate} per 1 minute", retry_after=max(1, math.ceil(wait)))

    def detect(self, text: str) -> list[Detected]:
        """Rank the languages on offer for a text."""
        return self.detector.rank(text[:2000])  # the beginning tells enough

    def drain(self) -> None:
        """Refuse new requests at the gate; those already past it are answered, and soon."""
        self.draining = True
        self.batcher.hurry()

    def close(self) -> None:
        """Finish what is queued and take no more."""
        self.batcher.close()
        self.batcher.join(timeout=1)


def make_service(settings: ServeSettings, models: Sequence[ServedModel]) -> Service:
    """Put a service together around models that are already loaded."""
    catalog, metrics = Catalog(models), Metrics()
    limits = BatchLimits(settings.batch_size, BATCH_CHARACTERS, settings.batch_window, settings.queue_size)

    def run(manner: Manner, tasks: list[Task]) -> Sequence[Outcome | Exception]:
        return translate_tasks(manner, tasks, settings.batch_size, metrics.count_decoding)

    table = settings.runtime_folder / "rates" if settings.runtime_folder else None
    batcher: Batcher[Manner, Task, Outcome] = Batcher(run, limits, metrics.observe_batch)
    return Service(
        settings,
        catalog,
        LanguageDetector(catalog.languages),
        batcher,
        metrics,
        RateLimiter(table),
        read_api_keys(settings.api_keys) if settings.api_keys else [],
    )


def open_service(settings: ServeSettings) -> Service:
    """Load the models and put the service together."""
    models = load_models(model_sources(settings.models), settings)
    for model in models:
        model.translator.translate(["."])  # the first call is slow: not at a user's expense
    return make_service(settings, models)
