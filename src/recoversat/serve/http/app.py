"""The HTTP app: one small function an address."""

import asyncio
import hmac
import json
import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, PlainTextResponse, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from recoversat.serve.http import messages
from recoversat.serve.http.answering import answer, check_size, plan, translate_all
from recoversat.serve.http.files import FileDesk, Upload, extensions, translate_upload
from recoversat.serve.http.gate import Gate, refused
from recoversat.serve.http.openapi import describe
from recoversat.serve.http.rate_limit import network_of
from recoversat.serve.http.reading import parse, read_fields, read_upload
from recoversat.serve.http.refusals import RefusalError
from recoversat.serve.process.metrics import CONTENT_TYPE
from recoversat.serve.service import Service
from recoversat.serve.work.catalog import models_fingerprint
from recoversat.text.languages import language_name

PAGE = Path(__file__).parent / "page"
_REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": messages.ErrorMessage, "description": "Invalid request"},
    403: {"model": messages.ErrorMessage, "description": "Invalid API key"},
    429: {"model": messages.ErrorMessage, "description": "Too many requests"},
    500: {"model": messages.ErrorMessage, "description": "Translation error"},
    503: {"model": messages.ErrorMessage, "description": "Too busy, too slow, or shutting down"},
}
_MOST_SUGGESTED = 100_000_000  # bytes of suggestions: strangers must not fill the disk
_SENT_AT_ONCE = 64 << 10  # bytes
M = TypeVar("M", messages.TranslateRequest, messages.DetectRequest, messages.SuggestRequest)
_GONE: dict[int | str, dict[str, Any]] = {404: {"model": messages.ErrorMessage, "description": "No such file"}}
_HOST = re.compile(r"[A-Za-z0-9.:\[\]_-]{1,255}")
_BUSY: dict[int | str, dict[str, Any]] = {503: _REFUSALS[503]}


def create_app(service: Service) -> ASGIApp:
    """Build the app around a service."""
    # No redirects: one to the same path with a slash would repeat whatever host the client named.
    app = FastAPI(title="recoversat", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RefusalError, _refusal)
    app.add_exception_handler(Exception, _internal_error)
    _add_translation(app, service)
    if service.settings.file_limit:
        _add_files(app, service)
    _add_information(app, service)
    _add_pages(app, service)
    return Gate(app, service)


def _add_translation(app: FastAPI, service: Service) -> None:
    # A character takes up to twelve bytes in JSON (two escapes); the rest is for the other fields.
    body_limit = 12 * service.settings.char_limit + 100_000

    async def admitted(request: Request, message: type[M]) -> tuple[M, str]:
        """Read and check a request; return it, and who asks."""
        fields = await read_fields(request, body_limit, service.settings.timeout)
        key, address = _api_key(request, fields), _address(request)
        service.check_key(key, address)
        wanted = parse(message, fields)
        return wanted, service.admit(key, address, wanted.cost)

    @app.post(
        "/translate",
        response_model=messages.TranslateResponse,
        responses=_REFUSALS,
        summary="Translate a text or a list of texts",
    )
    async def translate(request: Request) -> Response:
        wanted, client = await admitted(request, messages.TranslateRequest)
        planned = plan(service, wanted)
        outcomes = await translate_all(service, client, request, wanted, planned)
        size = sum(map(len, wanted.texts))
        service.metrics.characters.inc(size)
        request.scope["state"]["note"] = f" {planned.direction} {len(outcomes)} texts {size} characters"
        if service.settings.log_text:
            request.scope["state"]["note"] += f" {wanted.texts!r} -> {[outcome.text for outcome in outcomes]!r}"
        return _json(answer(wanted, planned, outcomes))

    @app.post(
        "/detect",
        response_model=list[messages.Detection],
        responses=_REFUSALS,
        summary="Detect the language of a text",
    )
    async def detect(request: Request) -> Response:
        wanted, _ = await admitted(request, messages.DetectRequest)
        check_size(service, wanted.texts)
        text = "\n".join(wanted.texts)
        return _json([{"confidence": d.confidence, "language": d.language} for d in service.detect(text)])

    if (suggested := service.settings.suggestions) is None:
        return
    book: Path = suggested

    @app.post("/suggest", response_model=messages.SuggestResponse, responses=_REFUSALS, summary="Suggest a better one")
    async def suggest(request: Request) -> Response:
        suggestion, _ = await admitted(request, messages.SuggestRequest)
        check_size(service, [suggestion.q, suggestion.s])
        with open(book, "a", encoding="utf-8") as file:
            if file.tell() > _MOST_SUGGESTED:
                raise RefusalError(503, "No more suggestions are taken")
            file.write(json.dumps(suggestion.model_dump(exclude={"api_key"}), ensure_ascii=False) + "\n")
        return _json({"success": True})


def _add_files(app: FastAPI, service: Service) -> None:
    desk = FileDesk(service)
    body_limit = service.settings.file_limit + 100_000

    @app.post(
        "/translate_file",
        response_model=messages.TranslateFileResponse,
        responses=_REFUSALS,
        summary="Translate a file; the answer says where to fetch it",
    )
    async def translate_file(request: Request) -> Response:
        address = _address(request)
        with desk.place(network_of(address)):
            fields, filename, content = await read_upload(request, body_limit, service.settings.timeout)
            key = _api_key(request, fields)
            service.check_key(key, address)
            admit = partial(service.admit, key, address)
            name, direction, size = await translate_upload(
                service, desk, request, Upload(filename, content), fields, admit
            )
        service.metrics.characters.inc(size)
        request.scope["state"]["note"] = f" {direction} 1 file {size} characters"
        return _json({"translatedFileUrl": f"{_own_address(request)}/download_file/{name}"})

    @app.get(
        "/download_file/{name}",
        responses=_BUSY | _GONE,
        response_class=Response,
        summary="Fetch a translated file",
    )
    async def download_file(name: str) -> Response:
        held = desk.find(name)
        disposition = f"attachment; filename*=UTF-8''{quote(held.filename, safe='')}"
        size = str(len(held.content))
        headers = {"content-disposition": disposition, "cache-control": "no-store", "content-length": size}
        return StreamingResponse(_in_parts(held.content), media_type="application/octet-stream", headers=headers)


async def _in_parts(content: bytes) -> AsyncIterator[bytes]:
    """Cut a file, so that there is no copy of it for each client that does not read."""
    for start in range(0, len(content), _SENT_AT_ONCE):
        yield content[start : start + _SENT_AT_ONCE]
        await asyncio.sleep(0)  # others have their turn, and it is seen that a client has gone


def _own_address(request: Request) -> str:
    """Give the address the client knows us by, for links in answers to nobody else."""
    host = request.headers.get("host", "")
    known = host if _HOST.fullmatch(host) else ":".join(map(str, request.scope.get("server") or ("localhost",)))
    return f"{request.url.scheme}://{known}"


def _add_information(app: FastAPI, service: Service) -> None:
    catalog = service.catalog
    models_fingerprint(tuple(service.settings.models))  # now: the folder may change while it is served

    @app.get("/languages", response_model=list[messages.Language], responses=_BUSY, summary="Languages on offer")
    async def languages() -> Response:
        codes = catalog.languages
        return _json([{"code": c, "name": language_name(c), "targets": catalog.targets(c)} for c in codes])

    @app.get("/models", response_model=list[messages.ServedPair], responses=_BUSY, summary="Directions and their K")
    async def models() -> Response:
        return _json([_served_pair(service, source, target) for source, target in catalog.pairs])

    @app.get("/livez", responses=_BUSY, summary="Whether the server answers")
    async def alive() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz", responses=_BUSY, include_in_schema=False)
    @app.get("/health", responses=_BUSY, summary="Whether translating works: some worker is there and gets on")
    async def health() -> dict[str, str]:
        if not service.batcher.is_working:
            raise RefusalError(503, "No worker translates at the moment; new ones are being started", retry_after=5)
        return {"status": "ok"}

    @app.get("/frontend/settings", responses=_BUSY, summary="What a frontend needs to know")
    async def frontend_settings() -> dict[str, Any]:
        return _frontend_settings(service)

    @app.get("/metrics", response_class=PlainTextResponse, responses=_REFUSALS, summary="Figures for Prometheus")
    async def metrics(request: Request) -> Response:
        token = service.settings.metrics_token
        if token is None:  # then whoever may translate may look
            service.check_key(_api_key(request, {}), _address(request))
        elif not hmac.compare_digest(_api_key(request, {}).encode(), token.encode()):
            raise RefusalError(403, "Invalid token")
        return Response(service.metrics.exposition(service.batcher.waiting), media_type=CONTENT_TYPE)


def _frontend_settings(service: Service) -> dict[str, Any]:
    source, target = service.catalog.pairs[0]
    return {
        "apiKeys": bool(service.keys),
        "charLimit": service.settings.char_limit,
        "filesTranslation": bool(service.settings.file_limit),
        "fingerprint": models_fingerprint(tuple(service.settings.models)),  # ours
        "frontendTimeout": 500,
        "keyRequired": bool(service.keys),
        "language": {
            "source": {"code": source, "name": language_name(source)},
            "target": {"code": target, "name": language_name(target)},
        },
        "suggestions": service.settings.suggestions is not None,
        "supportedFilesFormat": extensions() if service.settings.file_limit else [],
    }


def _served_pair(service: Service, source: str, target: str) -> dict[str, Any]:
    model = service.catalog.main(source, target)
    assert model is not None
    return {
        "source": source,
        "target": target,
        "segments": model.segments,
        "max_segments": model.max_segments,
        "choices": list(model.choices),
        "autoregressive": service.catalog.autoregressive(source, target) is not None,
    }


def _add_pages(app: FastAPI, service: Service) -> None:
    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return FileResponse(PAGE / "index.html", headers={"cache-control": "no-cache"})

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return FileResponse(PAGE / "docs.html", headers={"cache-control": "no-cache"})

    @app.get("/spec", include_in_schema=False)
    async def spec() -> Response:
        return _json(describe(app, service))

    app.mount("/page", StaticFiles(directory=PAGE), name="page")


def _api_key(request: Request, fields: dict[str, Any]) -> str:
    """Take the key from the request's fields, as LibreTranslate does, or from its Authorization header."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    given = fields.get("api_key") or (token if scheme.lower() == "bearer" else "")
    return given if isinstance(given, str) else ""


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _json(content: Any) -> Response:
    body = json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    return Response(body, media_type="application/json")


async def _http_error(request: Request, error: Exception) -> Response:
    """Turn Starlette's own errors (no such page, wrong method) into LibreTranslate's shape."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": str(error.detail)}, error.status_code, headers=error.headers)


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusalError)
    return refused(error)


async def _internal_error(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "Cannot translate text: internal error"}, 500)
