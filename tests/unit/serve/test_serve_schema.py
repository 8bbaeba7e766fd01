"""schemathesis plays with every address the description names: no 5xx, and no answer it does not describe."""

import os
from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import positive_data_acceptance

from recoversat.serve.http.app import create_app
from recoversat.serve.settings import ServeSettings
from tests.unit.serve.fake_translator import fake_model, fake_service

SETTINGS = ServeSettings(char_limit=200, text_limit=5, batch_window=0, suggestions=Path(os.devnull))
SERVICE = fake_service(SETTINGS, [fake_model()])
SCHEMA = schemathesis.openapi.from_asgi("/spec", create_app(SERVICE))
SCHEMA.config.generation.update(database="none")


@SCHEMA.parametrize()
@settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_the_app_does_what_it_describes(case: Case) -> None:
    # A description cannot say which tokens a model has: what it allows may still be refused, with 400.
    case.call_and_validate(excluded_checks=[positive_data_acceptance])


def test_every_address_is_described() -> None:
    described = {operation.ok().path for operation in SCHEMA.get_all_operations()}
    assert described == {
        "/translate", "/translate_file", "/download_file/{name}", "/detect", "/suggest", "/languages",
        "/models", "/health", "/livez", "/frontend/settings",
        "/metrics",
    }  # fmt: skip
