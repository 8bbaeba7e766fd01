"""Everything `recoversat serve` can be told: its options, declared here alone, and handed to every worker."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from recoversat.pipeline.options import ComputeTypeName, Device, parse_bytes

_Models = Option("--model", help="en-de=FOLDER, or FOLDER; several times for several pairs.")
_Terms = Option("--glossary", help="en-de=FILE, or FILE for all pairs: terms to translate as wished.")
_Hang = Option(help="Seconds without a step after which a worker is killed.", min=0.1)


@dataclass(frozen=True)
class ServeSettings:
    """Settings of the server; limits are for one request unless they say otherwise."""

    models: Annotated[list[str], _Models] = field(default_factory=list)
    host: Annotated[str, Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1"
    port: Annotated[int, Option(help="Port to listen on.", min=0, max=65535)] = 5000
    workers: Annotated[int, Option(help="Processes; each loads the models.", min=1)] = 1
    threads: Annotated[int, Option(help="Processor cores a worker decodes with.", min=1)] = 1
    max_memory: Annotated[Any, Option(parser=parse_bytes, metavar="SIZE", help="For all workers, e.g. 2G.")] = None
    batch_size: Annotated[int, Option(help="Texts translated together; 1 = each alone.", min=1)] = 32
    batch_window: Annotated[float, Option(help="Milliseconds a request waits for company.", min=0)] = 4.0
    queue_size: Annotated[int, Option(help="Texts waiting before 503.", min=1)] = 512
    char_limit: Annotated[int, Option(help="Characters a text.", min=1)] = 10_000
    text_limit: Annotated[int, Option(help="Texts a request.", min=1)] = 100
    piece_limit: Annotated[int, Option(help="Pieces to be written for a text, alternatives included.", min=1)] = 20_000
    file_limit: Annotated[int, Option(help="Bytes of a file; 0 = no files.", min=0)] = 5_000_000
    file_char_limit: Annotated[int, Option(help="Characters of a file.", min=1)] = 100_000
    timeout: Annotated[float, Option(help="Seconds after which a request is given up.", min=0.001)] = 30.0
    hang_timeout: Annotated[float, _Hang] = 20.0
    max_connections: Annotated[int, Option(help="Open at a time; half of them for one address.", min=1)] = 1000
    api_keys: Annotated[Path | None, Option(help="File of API keys, one a line.")] = None
    rate_limit: Annotated[int | None, Option(help="Requests a minute for each key or address.", min=1)] = None
    trusted_proxy: Annotated[str | None, Option(help="Proxy whose X-Forwarded-For is believed.")] = None
    metrics_token: Annotated[str | None, Option(help="Who asks for /metrics must send it.")] = None
    suggestions: Annotated[Path | None, Option(help="Take /suggest; write JSON lines here.")] = None
    glossaries: Annotated[list[str], _Terms] = field(default_factory=list)
    log_text: Annotated[bool, Option("--log-text", help="Write users' texts to the log.")] = False
    device: Device = "cpu"
    compute_type: ComputeTypeName = "default"
    header_timeout: float = 10.0  # seconds a client has to send a request's headers
    file_seconds: float = 30.0  # to read a file, and to write it
    file_memory: int = 1_000_000_000  # bytes to read or write a file with
    shutdown_timeout: float = 30.0  # seconds running requests get to finish

    @property
    def worker_memory(self) -> int | None:
        """What one worker may hold of `max_memory`, in bytes."""
        return self.max_memory // self.workers if self.max_memory else None
