"""Why a request is not answered: LibreTranslate's codes and words, or ours where it has none."""

import math


class RefusalError(Exception):
    """A request that is refused, with the status and the message the client gets."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


def too_much(size: int, limit: int) -> RefusalError:
    return RefusalError(400, f"Invalid request: request ({size}) exceeds text limit ({limit})")


def client_left() -> RefusalError:
    """Note that nobody waits for the answer any more (nginx's code for it: it is only ever seen in the log)."""
    return RefusalError(499, "The client has left")


def slow_down(rate: int, wait: float) -> RefusalError:
    return RefusalError(429, f"Slowdown: {rate} per 1 minute", retry_after=max(1, math.ceil(wait)))


def too_busy(retry_after: int) -> RefusalError:
    return RefusalError(503, "Too busy: try again later", retry_after)


def shutting_down() -> RefusalError:
    return RefusalError(503, "The server is shutting down", retry_after=1)
