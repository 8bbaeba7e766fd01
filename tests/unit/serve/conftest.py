"""A client for an app that runs in the test's own process."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from recoversat.serve.http.app import create_app
from recoversat.serve.service import Service
from recoversat.serve.settings import ServeSettings
from tests.unit.serve.fake_translator import MakeClient, fake_model, fake_service


@pytest.fixture
def make_client() -> Iterator[MakeClient]:
    """Make clients of servers with any settings; `service` and `translator` are reachable on them."""
    services: list[tuple[Service, Any]] = []

    def make(models: Any = None, **settings: Any) -> TestClient:
        served = models or [fake_model()]
        service = fake_service(ServeSettings(**settings), served)
        services.append((service, served))
        client = TestClient(create_app(service), raise_server_exceptions=False)
        client.service, client.translator = service, served[0].translator  # type: ignore[attr-defined]
        return client

    yield make
    for service, served in services:
        for model in served:
            model.translator.gate.set()
        service.batcher.close(timeout=10)


@pytest.fixture
def client(make_client: MakeClient) -> TestClient:
    """A client of a server with all defaults."""
    return make_client()
