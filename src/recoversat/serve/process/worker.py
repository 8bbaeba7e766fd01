"""One worker: loads the models, answers requests, and leaves when its supervisor does."""

import asyncio
import logging
import signal
import socket
from multiprocessing.connection import Connection
from types import FrameType

import uvicorn

from recoversat.errors import UserError
from recoversat.serve.process.memory import resident_bytes
from recoversat.serve.service import Service, open_service
from recoversat.serve.settings import ServeSettings

log = logging.getLogger("recoversat.serve")

READY = "ready"
_BACKLOG = 2048
_LOOK_EVERY = 1.0  # seconds between two looks at the memory


class Worker(uvicorn.Server):
    """A uvicorn server that drains its service on a signal, and tells its supervisor when it is ready."""

    def __init__(self, config: uvicorn.Config, service: Service, parent: Connection, sock: socket.socket) -> None:
        super().__init__(config)
        self._service, self._parent, self._sock = service, parent, sock

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start answering."""
        await super().startup(sockets)
        # asyncio accepts as many connections at a time as the backlog it was given says: one, so that the
        # workers share them; the kernel may hold many.
        self._sock.listen(_BACKLOG)
        asyncio.get_running_loop().add_reader(self._parent.fileno(), self._parent_is_gone)
        self._watch = asyncio.ensure_future(self._watch_memory())
        self._parent.send(READY)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Refuse new work from the moment the signal comes."""
        self._service.drain()
        super().handle_exit(sig, frame)

    def _parent_is_gone(self) -> None:
        asyncio.get_running_loop().remove_reader(self._parent.fileno())
        self._leave("the supervisor is gone")

    def _leave(self, why: str) -> None:
        log.warning("worker leaves: %s", why)
        self._service.drain()
        self.should_exit = True

    async def _watch_memory(self) -> None:
        """Make room for a fresh worker when this one has grown over its share of --max-memory."""
        share = self._service.settings.worker_memory
        while share is not None and not self.should_exit:
            await asyncio.sleep(_LOOK_EVERY)
            if (size := resident_bytes()) > share:
                self._leave(f"{size >> 20} MiB of memory, {share >> 20} allowed")


def run_worker(settings: ServeSettings, sock: socket.socket, parent: Connection) -> None:
    """Load everything and serve until told to stop; what prevents it is told to the supervisor."""
    from recoversat.serve.http.app import create_app

    start_logging()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches us too; the supervisor decides what follows
    try:
        service = open_service(settings)
        share = settings.worker_memory
        if share is not None and (size := resident_bytes()) > share:
            raise UserError(f"--max-memory: a worker holds {size >> 20} MiB with its models, {share >> 20} are allowed")
    except UserError as error:
        parent.send(str(error))
        return
    config = uvicorn.Config(
        create_app(service),
        lifespan="off",
        log_config=None,
        access_log=False,
        backlog=1,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_timeout)),
        proxy_headers=settings.trusted_proxy is not None,
        forwarded_allow_ips=settings.trusted_proxy,
        server_header=False,
    )
    Worker(config, service, parent, sock).run(sockets=[sock])
    service.close()


def start_logging() -> None:
    """Log to standard error; of uvicorn only what is wrong."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
