"""Read requests from JSON, a form or the query string, in bounded memory, and check them."""

import asyncio
import json
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData, QueryParams, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from recoversat.serve.http.refusals import RefusalError, client_left, too_much

M = TypeVar("M", bound=BaseModel)

_SWITCHES = ("details", "exact", "confidence")
_STRUCTURES = ("forced", "glossary")  # in a form they are JSON
_FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")
_MAX_FIELDS = 1000


async def read_fields(request: Request, limit: int, timeout: float) -> dict[str, Any]:
    """Read the fields of a request, wherever they are, but at most `limit` bytes within `timeout` seconds."""
    body = await _received(request, limit, timeout)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return _json_fields(body)
    fields = _plain_fields(request.query_params)
    if kind in _FORM_TYPES:
        fields |= _plain_fields(await _form(request, body))
    return fields


async def read_upload(request: Request, limit: int, timeout: float) -> tuple[dict[str, Any], str, bytes]:
    """Read a form with a file; return its fields, the name of the file and what is in it."""
    body = await _received(request, limit, timeout)
    form = await _form(request, body)
    fields = _plain_fields(request.query_params) | _plain_fields(form)
    _require(fields, "source", "target")
    file = form.get("file")
    if not isinstance(file, UploadFile) or not file.filename:
        raise RefusalError(400, "Invalid request: missing file parameter")
    return fields, file.filename, await file.read()


def parse(message: type[M], fields: dict[str, Any]) -> M:
    """Check the fields of a request; say what is wrong in LibreTranslate's words."""
    _require(fields, *(name for name, field in message.model_fields.items() if field.is_required()))
    if "format" in message.model_fields:
        if (format := fields.get("format")) not in (None, "", "text", "html"):
            raise RefusalError(400, f"{str(format)[:20]} format is not supported")
        fields = fields | {"format": fields.get("format") or None}
    try:
        return message.model_validate(fields)
    except ValidationError as error:
        first, *more = error.errors()
        # a field of several types has a complaint for each
        said = dict.fromkeys(e["msg"].removeprefix("Input should be ") for e in more if e["loc"][0] == first["loc"][0])
        what = " or ".join([first["msg"], *said])
        where = ".".join(
            str(part) for part in first["loc"] if not str(part).startswith(("constrained", "list[", "tuple["))
        )
        raise RefusalError(400, f"Invalid request: {where}: {what}") from None


def _require(fields: dict[str, Any], *names: str) -> None:
    for name in names:
        if fields.get(name) in (None, "", []):
            raise RefusalError(400, f"Invalid request: missing {name} parameter")


async def _received(request: Request, limit: int, timeout: float) -> bytes:
    try:
        async with asyncio.timeout(timeout):
            body = bytearray()
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise too_much(len(body), limit)
            return bytes(body)
    except TimeoutError:
        raise RefusalError(400, f"Invalid request: not received within {timeout:g} seconds") from None
    except ClientDisconnect:
        raise client_left() from None


def _json_fields(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise RefusalError(400, "Invalid JSON format")
    return {name: _mended(value) for name, value in fields.items() if value is not None}


def _mended(value: Any) -> Any:
    """Make text of what JSON let through: half of a surrogate pair is no character."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_mended(item) if isinstance(item, str) else item for item in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) if isinstance(item, str) else item for key, item in value.items()}
    return value


async def _form(request: Request, body: bytes) -> FormData:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    class InMemory(MultiPartParser):
        spool_max_size = len(body) + 1  # never to a temporary file: there may be no room for one

    received, most = Request(request.scope, receive), {"max_fields": _MAX_FIELDS, "max_part_size": len(body) + 1}
    try:
        if request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
            return await InMemory(request.headers, received.stream(), max_files=_MAX_FIELDS, **most).parse()
        return await received.form(**most)
    except (HTTPException, MultiPartException, UnicodeError, LookupError, KeyError):  # and charsets that do not exist
        raise RefusalError(400, "Invalid form") from None


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")


def _plain_fields(values: FormData | QueryParams) -> dict[str, Any]:
    """Read fields that are all text; a field q that comes several times is a list."""
    fields: dict[str, Any] = {name: value for name, value in values.items() if isinstance(value, str)}
    texts = [value for value in values.getlist("q") if isinstance(value, str)]
    if len(texts) > 1:
        fields["q"] = texts
    fields = {name: _mended(value) for name, value in fields.items()}
    if isinstance(values, FormData) and "q" in fields:  # forms end lines with both; LibreTranslate takes it as one
        text = fields["q"]
        fields["q"] = [_unix(one) for one in text] if isinstance(text, list) else _unix(text)
    for name in _SWITCHES:
        if name in fields:
            fields[name] = {"1": True, "true": True, "0": False, "false": False}.get(fields[name].lower(), fields[name])
    for name in _STRUCTURES:
        if name in fields:
            try:
                fields[name] = json.loads(fields[name])
            except (ValueError, RecursionError):
                raise RefusalError(400, f"Invalid request: {name}: not JSON") from None
    return fields
