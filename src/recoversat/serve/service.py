"""All that is needed to answer requests, put together in one place."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from recoversat.serve.http.api_keys import ApiKey, find_api_key, read_api_keys
from recoversat.serve.http.rate_limit import RateLimiter, network_of
from recoversat.serve.http.refusals import RefusalError, slow_down
from recoversat.serve.process.fork_server import ForkServer
from recoversat.serve.process.metrics import Metrics
from recoversat.serve.settings import ServeSettings
from recoversat.serve.work.batching import Batcher, BatchLimits, Worker
from recoversat.serve.work.catalog import Catalog, OfferedModel
from recoversat.serve.work.documents import import_readers
from recoversat.serve.work.translating import BatchKey, Outcome, Task
from recoversat.text.languages import Detected, LanguageDetector

BATCH_COST = 1_000  # bytes in one batch: a short text need not wait for a whole book
WRONG_KEYS = 10  # a minute, for each address
_DETECTED = 1000  # characters: the beginning tells enough


@dataclass
class Service:
    """The parts of a running server; `draining` means it is shutting down."""

    settings: ServeSettings
    catalog: Catalog[OfferedModel]
    detector: LanguageDetector
    batcher: Batcher[BatchKey, Task, Outcome]
    metrics: Metrics
    limiter: RateLimiter
    keys: list[ApiKey]
    fork_server: ForkServer = field(default_factory=lambda: ForkServer(import_readers))
    draining: bool = False

    def check_key(self, given: str, address: str) -> ApiKey | None:
        """Refuse whoever needs a key and has none; guessing is slowed down."""
        if not self.keys:
            return None
        guesses = f"wrong keys from {network_of(address)}"
        if self.limiter.is_spent(guesses, WRONG_KEYS):
            raise slow_down(WRONG_KEYS, 60 / WRONG_KEYS)
        if not given:
            raise RefusalError(400, "Please contact the server operator to get an API key")
        key = find_api_key(self.keys, given)
        if key is None:
            self.limiter.wait_time(guesses, WRONG_KEYS)
            raise RefusalError(403, "Invalid API key")
        return key

    def admit(self, given: str, address: str, cost: int = 1, paid: int = 0) -> str:
        """Refuse whoever has no valid key or asks for too much; `cost` and what is `paid` of it are in requests.

        Return who asks.
        """
        key = self.check_key(given, address)
        caller = f"key {key.digest.hex()}" if key else f"address {network_of(address)}"
        rate = (key and key.rate_limit) or self.settings.rate_limit
        if rate and (wait := self.limiter.wait_time(caller, rate, cost, paid=paid)):
            raise slow_down(rate, wait)
        return caller

    def detect(self, text: str) -> list[Detected]:
        """Rank the languages on offer for a text."""
        return self.detector.rank(text[:_DETECTED])

    def drain(self) -> None:
        """Refuse new requests at the gate; those already past it are answered, and soon."""
        self.draining = True
        self.batcher.hurry()

    def close(self, timeout: float) -> None:
        """Let all other processes go."""
        self.fork_server.close()
        self.batcher.close(timeout)


def make_service(
    settings: ServeSettings,
    models: Sequence[OfferedModel],
    workers: Sequence[Worker[BatchKey, Task, Outcome]],
    metrics: Metrics,
) -> Service:
    """Put a service together around workers that have loaded these models."""
    catalog = Catalog(models)
    limits = BatchLimits(settings.batch_size, BATCH_COST, settings.batch_window / 1000, settings.queue_size)
    return Service(
        settings,
        catalog,
        LanguageDetector(catalog.languages),
        Batcher(workers, limits, metrics.observe_batch),
        metrics,
        RateLimiter(),
        read_api_keys(settings.api_keys) if settings.api_keys else [],
    )
