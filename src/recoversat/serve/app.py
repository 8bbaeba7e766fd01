"""The HTTP app: one small function an address."""

import json
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from recoversat.serve import messages
from recoversat.serve.answering import answer, check_size, plan, translate_all
from recoversat.serve.catalog import models_fingerprint
from recoversat.serve.gate import Gate, refused
from recoversat.serve.languages import language_name
from recoversat.serve.metrics import CONTENT_TYPE
from recoversat.serve.openapi import describe
from recoversat.serve.reading import parse_detect, parse_translate, read_fields
from recoversat.serve.refusals import RefusalError
from recoversat.serve.service import Service

PAGE = Path(__file__).parent / "page"
_REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": messages.ErrorMessage, "description": "Invalid request"},
    403: {"model": messages.ErrorMessage, "description": "Invalid API key"},
    429: {"model": messages.ErrorMessage, "description": "Too many requests"},
    500: {"model": messages.ErrorMessage, "description": "Translation error"},
    503: {"model": messages.ErrorMessage, "description": "Too busy, too slow, or shutting down"},
}
_BUSY: dict[int | str, dict[str, Any]] = {503: _REFUSALS[503]}


def create_app(service: Service) -> ASGIApp:
    """Build the app around a service."""
    app = FastAPI(title="recoversat", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RefusalError, _refusal)
    app.add_exception_handler(Exception, _internal_error)
    _add_translation(app, service)
    _add_information(app, service)
    _add_pages(app, service)
    return Gate(app, service)


def _add_translation(app: FastAPI, service: Service) -> None:
    # A character takes up to twelve bytes in JSON (two escapes); the rest is for the other fields.
    body_limit = 12 * service.settings.char_limit + 100_000

    @app.post(
        "/translate",
        response_model=messages.TranslateResponse,
        responses=_REFUSALS,
        summary="Translate a text or a list of texts",
    )
    async def translate(request: Request) -> Response:
        fields = await read_fields(request, body_limit, service.settings.timeout)
        service.admit(_api_key(request, fields), _address(request))
        wanted = parse_translate(fields)
        planned = plan(service, wanted)
        outcomes = await translate_all(service, request, wanted, planned)
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
        fields = await read_fields(request, body_limit, service.settings.timeout)
        service.admit(_api_key(request, fields), _address(request))
        wanted = parse_detect(fields)
        check_size(service, wanted.texts)
        text = "\n".join(wanted.texts)
        return _json([{"confidence": d.confidence, "language": d.language} for d in service.detect(text)])


def _add_information(app: FastAPI, service: Service) -> None:
    catalog = service.catalog
    models_fingerprint(service.settings.models)  # now: the folder may change while it is served

    @app.get("/languages", response_model=list[messages.Language], responses=_BUSY, summary="Languages on offer")
    async def languages() -> Response:
        codes = catalog.languages
        return _json([{"code": c, "name": language_name(c), "targets": catalog.targets(c)} for c in codes])

    @app.get("/models", response_model=list[messages.ServedPair], responses=_BUSY, summary="Directions and their K")
    async def models() -> Response:
        return _json([_served_pair(service, source, target) for source, target in catalog.pairs])

    @app.get("/health", responses=_BUSY, summary="Whether the server takes requests")
    async def health() -> dict[str, str]:
        if not service.batcher.is_working:
            raise RefusalError(503, "The translating thread has died; restart the server")
        return {"status": "ok"}

    @app.get("/frontend/settings", responses=_BUSY, summary="What a frontend needs to know")
    async def frontend_settings() -> dict[str, Any]:
        return _frontend_settings(service)

    @app.get("/metrics", response_class=PlainTextResponse, responses=_BUSY, summary="Figures for Prometheus")
    async def metrics() -> Response:
        return Response(service.metrics.exposition(service.batcher.waiting), media_type=CONTENT_TYPE)


def _frontend_settings(service: Service) -> dict[str, Any]:
    source, target = service.catalog.pairs[0]
    return {
        "apiKeys": bool(service.keys),
        "charLimit": service.settings.char_limit,
        "filesTranslation": False,
        "fingerprint": models_fingerprint(service.settings.models),  # ours
        "frontendTimeout": 500,
        "keyRequired": bool(service.keys),
        "language": {
            "source": {"code": source, "name": language_name(source)},
            "target": {"code": target, "name": language_name(target)},
        },
        "suggestions": False,
        "supportedFilesFormat": [],
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
