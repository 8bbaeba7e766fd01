"""The description of the API at /spec: what FastAPI knows, and the request bodies it cannot see."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from recoversat import __version__
from recoversat.serve.http.messages import DetectRequest, TranslateRequest
from recoversat.serve.service import Service

_REF = "#/components/schemas/{model}"
_TEXT_FIELDS = ("q", "source", "target", "format", "api_key")
_EXAMPLES = {"/translate": {"q": "Two dogs run.", "source": "auto", "target": "de"}, "/detect": {"q": "Two dogs run."}}


def describe(app: FastAPI, service: Service) -> dict[str, Any]:
    """Describe the API, with the languages and limits of this very server."""
    if app.openapi_schema:
        return app.openapi_schema
    spec = get_openapi(
        title="recoversat",
        version=__version__,
        summary="LibreTranslate's API for semi-autoregressive translation.",
        routes=app.routes,
    )
    schemas = spec.setdefault("components", {}).setdefault("schemas", {})
    for path, message in (("/translate", TranslateRequest), ("/detect", DetectRequest)):
        schema = message.model_json_schema(ref_template=_REF)
        schemas |= schema.pop("$defs", {})
        _fit(schema["properties"], service)
        spec["paths"][path]["post"]["requestBody"] = _bodies(schema, _EXAMPLES[path])
    app.openapi_schema = spec
    return spec


def _fit(properties: dict[str, Any], service: Service) -> None:
    """Put the limits and languages of this server into the fields of a request."""
    settings, languages = service.settings, service.catalog.languages
    text, texts = properties["q"]["anyOf"]
    text["maxLength"] = settings.char_limit
    texts["maxItems"] = settings.text_limit
    if "source" in properties:
        properties["source"]["enum"] = ["auto", *languages]
        properties["target"]["enum"] = languages


def _bodies(schema: dict[str, Any], example: dict[str, str]) -> dict[str, Any]:
    """Offer the same fields as JSON and as a form."""
    fields = {
        name: {"type": "string", "minLength": int(name != "api_key")} | _enum(field)
        for name, field in schema["properties"].items()
        if name in _TEXT_FIELDS
    }
    if "format" in fields:
        fields["format"] = {"type": "string", "enum": ["text", "html", ""]}
        fields["alternatives"] = {"type": "integer", "minimum": 0, "maximum": 10}
    form = {"type": "object", "properties": fields, "required": schema["required"]}
    return {
        "required": True,
        "content": {
            "application/json": {"schema": schema, "example": example},
            "application/x-www-form-urlencoded": {"schema": form, "example": example},
        },
    }


def _enum(field: dict[str, Any]) -> dict[str, Any]:
    return {"enum": field["enum"]} if "enum" in field else {}
