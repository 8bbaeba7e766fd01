"""A client for an app that runs in the test's own process."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from recoversat.serve.http.app import create_app
from recoversat.serve.service import Service, make_service
from recoversat.serve.settings import ServeSettings
from tests.unit.serve.fake_translator import FakeTranslator, MakeClient, fake_model


@pytest.fixture
def make_client() -> Iterator[MakeClient]:
    """Make clients of servers with any settings; `models` and `translator` are reachable on them."""
    services: list[Service] = []

    def make(models: Any = None, **settings: Any) -> TestClient:
        served = models or [fake_model()]
        service = make_service(ServeSettings(**settings), served)
        services.append(service)
        client = TestClient(create_app(service), raise_server_exceptions=False)
        client.service, client.translator = service, served[0].translator  # type: ignore[attr-defined]
        return client

    yield make
    for service in services:
        for pair in service.catalog.pairs:
            translator = service.catalog.main(*pair).translator  # type: ignore[union-attr]
            assert isinstance(translator, FakeTranslator)
            translator.gate.set()
        service.close()
        service.limiter.close()


@pytest.fixture
def client(make_client: MakeClient) -> TestClient:
    """A client of a server with all defaults."""
    return make_client()
