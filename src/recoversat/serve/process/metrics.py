"""Figures for Prometheus: one process answers all requests, so it has them all."""

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """What is counted, and how it is read."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        own = self._registry
        self.requests = Counter(
            "recoversat_requests", "Requests answered.", ["path", "status"], registry=own
        )  # exported as recoversat_requests_total
        self.latency = Histogram(
            "recoversat_request_seconds", "From request to answer.", ["path"], buckets=_SECONDS, registry=own
        )
        self.waited = Histogram(
            "recoversat_queue_seconds", "Longest wait in the queue, a batch.", buckets=_SECONDS, registry=own
        )
        self.batch = Histogram("recoversat_batch_size", "Texts translated together.", buckets=_SIZES, registry=own)
        self.queue = Gauge("recoversat_queue_length", "Texts waiting.", registry=own)
        self.running = Gauge("recoversat_requests_in_progress", "Requests being answered.", registry=own)
        self.lost = Counter("recoversat_workers_lost", "Workers that died or hung and were replaced.", registry=own)
        self.characters = Counter("recoversat_characters", "Characters of text translated.", registry=own)
        self.sentences = Counter("recoversat_sentences", "Sentences decoded.", registry=own)
        self.steps = Counter("recoversat_decoding_steps", "Decoding steps taken for them.", registry=own)

    def observe_batch(self, jobs: int, waited: float, waiting: int) -> None:
        """Note a batch that is about to be translated, and how many jobs still wait."""
        self.queue.set(waiting)
        self.batch.observe(jobs)
        self.waited.observe(waited)

    def count_decoding(self, sentences: int, steps: int) -> None:
        """Note sentences that have been decoded."""
        self.sentences.inc(sentences)
        self.steps.inc(steps)

    def exposition(self, waiting: int) -> bytes:
        self.queue.set(waiting)
        return generate_latest(self._registry)
