"""The log: standard error, and nothing of what users wrote unless asked for."""

import logging
import traceback

log = logging.getLogger("recoversat.serve")


def log_error(error: Exception, log_text: bool) -> None:
    """Log where an error happened; its message, which may quote the user, only if texts may be logged."""
    if log_text:
        log.error("internal error", exc_info=error)
    else:
        log.error("%s", described(error))


def described(error: Exception) -> str:
    """Say where an error happened, and nothing of what it says."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    where = " < ".join(f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in reversed(frames))
    return f"internal error: {type(error).__name__} in {where}"


def start_logging() -> None:
    """Log to standard error; of uvicorn only what is wrong."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
