"""Who may use the server: keys from a file, compared without telling by the time how near a guess was."""

import hashlib
import hmac
from dataclasses import dataclass
from pathlib import Path

from recoversat.errors import UserError


@dataclass(frozen=True)
class ApiKey:
    """The digest of a key, and its requests a minute where they differ from everybody's."""

    digest: bytes
    rate_limit: int | None = None


def read_api_keys(path: Path) -> list[ApiKey]:
    """Read a file of keys: one a line, optionally followed by its requests a minute; # starts a comment."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"--api-keys {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"--api-keys {path}: not a text file in UTF-8") from None
    keys = []
    for number, line in enumerate(lines, 1):
        fields = line.partition("#")[0].split()
        if len(fields) > 2 or (len(fields) == 2 and not (fields[1].isdigit() and int(fields[1]))):
            raise UserError(f"{path}, line {number}: write KEY, or KEY and its requests a minute")
        if fields:
            keys.append(ApiKey(_digest(fields[0]), int(fields[1]) if len(fields) == 2 else None))
    if not keys:
        raise UserError(f"--api-keys {path}: no key in it")
    return keys


def find_api_key(keys: list[ApiKey], given: str) -> ApiKey | None:
    """Return the key that was given; every key is compared, so time says nothing about them."""
    digest, found = _digest(given), None
    for key in keys:
        if hmac.compare_digest(key.digest, digest):
            found = key
    return found


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
