"""Why a request is not answered: LibreTranslate's codes and words, or ours where it has none."""


class RefusalError(Exception):
    """A request that is refused, with the status and the message the client gets."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


def missing(name: str) -> RefusalError:
    """Say that a parameter is missing."""
    return RefusalError(400, f"Invalid request: missing {name} parameter")


def too_much(size: int, limit: int) -> RefusalError:
    """Say that a request is too large."""
    return RefusalError(400, f"Invalid request: request ({size}) exceeds text limit ({limit})")


def unsupported(language: str) -> RefusalError:
    """Say that a language is not on offer."""
    return RefusalError(400, f"{language} is not supported")
