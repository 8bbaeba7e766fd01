"""The description of the API at /spec: what FastAPI knows, and the request bodies it cannot see."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from recoversat import __version__
from recoversat.serve.http.messages import DetectRequest, SuggestRequest, TranslateRequest
from recoversat.serve.service import Service

_REF = "#/components/schemas/{model}"
_TEXT_FIELDS = ("q", "s", "source", "target", "format", "api_key")
_EXAMPLES: dict[str, tuple[type[BaseModel], dict[str, str]]] = {
    "/translate": (TranslateRequest, {"q": "Two dogs run.", "source": "auto", "target": "de"}),
    "/detect": (DetectRequest, {"q": "Two dogs run."}),
    "/suggest": (SuggestRequest, {"q": "Two dogs run.", "s": "Zwei Hunde rennen.", "source": "en", "target": "de"}),
}


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
    for path, (message, example) in _EXAMPLES.items():
        if path not in spec["paths"]:
            continue
        schema = message.model_json_schema(ref_template=_REF)
        schemas |= schema.pop("$defs", {})
        _fit(schema["properties"], service)
        spec["paths"][path]["post"]["requestBody"] = _bodies(schema, example)
    if "/translate_file" in spec["paths"]:
        spec["paths"]["/translate_file"]["post"]["requestBody"] = _file_body(service)
    app.openapi_schema = spec
    return spec


def _fit(properties: dict[str, Any], service: Service) -> None:
    """Put the limits and languages of this server into the fields of a request."""
    settings, languages = service.settings, service.catalog.languages
    text, *texts = properties["q"].get("anyOf", [properties["q"]])
    text["maxLength"] = settings.char_limit
    for listed in texts:
        listed["maxItems"] = settings.text_limit
        listed["items"]["maxLength"] = settings.char_limit
    if "format" in properties:
        properties["source"]["enum"] = ["auto", *languages]
        properties["target"]["enum"] = languages


def _bodies(schema: dict[str, Any], example: dict[str, str]) -> dict[str, Any]:
    """Offer the same fields as JSON and as a form."""
    fields = {
        name: {"type": "string", "minLength": int(name != "api_key")}
        | {key: field[key] for key in field.keys() & {"enum"}}
        for name, field in schema["properties"].items()
        if name in _TEXT_FIELDS
    }
    if "format" in fields:
        fields["format"] = {"type": "string", "enum": ["text", "html", ""]}
        fields["alternatives"] = {"type": "integer", "maximum": 10}
    form = {"type": "object", "properties": fields, "required": schema["required"]}
    return {
        "required": True,
        "content": {
            "application/json": {"schema": schema, "example": example},
            "application/x-www-form-urlencoded": {"schema": form, "example": example},
        },
    }


def _file_body(service: Service) -> dict[str, Any]:
    languages = service.catalog.languages
    fields = {
        "file": {"type": "string", "format": "binary", "maxLength": service.settings.file_limit},
        "source": {"type": "string", "enum": ["auto", *languages]},
        "target": {"type": "string", "enum": languages},
        "api_key": {"type": "string"},
    }
    form = {"type": "object", "properties": fields, "required": ["file", "source", "target"]}
    return {"required": True, "content": {"multipart/form-data": {"schema": form}}}
