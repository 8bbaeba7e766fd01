"""The process people start: it answers requests, and has workers translate."""

import os
import signal
import socket
from types import FrameType
from typing import cast

import uvicorn

from recoversat.engines.loading import ComputeType, EngineOptions
from recoversat.errors import UserError
from recoversat.serve.http.api_keys import read_api_keys
from recoversat.serve.http.app import create_app
from recoversat.serve.http.connections import limited_connections
from recoversat.serve.process.logs import log, start_logging
from recoversat.serve.process.metrics import Metrics
from recoversat.serve.process.worker import WorkerProcess
from recoversat.serve.service import Service, make_service
from recoversat.serve.settings import ServeSettings
from recoversat.serve.work.catalog import glossary_of, model_sources

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_BACKLOG = 2048


class Server(uvicorn.Server):
    """A uvicorn server that refuses new work from the moment a signal comes."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Answer what is there, and stop."""
        self._service.drain()
        super().handle_exit(sig, frame)


def serve(settings: ServeSettings) -> None:
    """Serve until a signal comes."""
    start_logging()
    # What is wrong is told before anything is started.
    sources = model_sources(settings.models)
    for each in sources:
        glossary_of(settings.glossaries, each.source, each.target)
    EngineOptions(settings.device, cast("ComputeType", settings.compute_type))
    if settings.api_keys:
        read_api_keys(settings.api_keys)
    sock = _listen(settings.host, settings.port)
    for name in _THREAD_VARIABLES:
        os.environ[name] = str(settings.threads)
    log.info("loading %s", ", ".join(f"{each.source}-{each.target} from {each.folder}" for each in sources))
    metrics = Metrics()
    workers = [WorkerProcess(settings, metrics) for _ in range(settings.workers)]
    try:
        models, *_ = [worker.wait_until_ready() for worker in workers]
    except BaseException:
        for worker in workers:
            worker.close()
        raise
    service = make_service(settings, models, workers, metrics)
    server = Server(_uvicorn_config(service), service)
    for number in (signal.SIGTERM, signal.SIGINT):  # before uvicorn listens to them, and when it raises them again
        signal.signal(number, server.handle_exit)
    host, port = sock.getsockname()[:2]
    named = f"[{host}]" if ":" in host else host
    log.info("recoversat serves http://%s:%d with %d worker(s)", named, port, len(workers))
    server.run(sockets=[sock])
    service.close(timeout=5)
    log.info("stopped")


def _uvicorn_config(service: Service) -> uvicorn.Config:
    settings = service.settings
    proxy = settings.trusted_proxy
    return uvicorn.Config(
        create_app(service),
        http=limited_connections(settings),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_timeout)),
        proxy_headers=proxy is not None,
        # On a socket of both kinds an address of the old kind is written like one of the new.
        forwarded_allow_ips=[proxy, f"::ffff:{proxy}"] if proxy else None,
        server_header=False,
    )


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(_BACKLOG)  # now: two servers may have the same address until one listens on it
    except OSError as error:
        raise UserError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --host or --port") from None
    return sock
