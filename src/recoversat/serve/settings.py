"""Everything `recoversat serve` can be told, checked once, handed to every worker."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class ServeSettings(BaseModel):
    """Settings of the server; limits are for one request unless they say otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: tuple[str, ...] = Field((), description="PAIR=FOLDER or FOLDER each; the built-in models without any")
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(5000, ge=0, le=65535, description="port to listen on; 0 = any free one")
    workers: int = Field(1, ge=1, description="processes; each loads the models")
    threads: int = Field(1, ge=1, description="processor cores one worker decodes with")
    device: str = Field("cpu", description="cpu, cuda or auto")
    compute_type: str = Field("default", description="int8 or float32; int8 where exported by default")
    max_memory: int | None = Field(None, ge=1, description="bytes for all workers together; null = no bound")
    batch_size: int = Field(32, ge=1, description="texts translated together; 1 = no dynamic batching")
    batch_window: float = Field(0.004, ge=0, description="seconds an idle worker waits for company of a request")
    queue_size: int = Field(512, ge=1, description="texts that may wait; more are refused with 503")
    char_limit: int = Field(10_000, ge=1, description="characters of each text")
    text_limit: int = Field(100, ge=1, description="texts in a list")
    piece_limit: int = Field(20_000, ge=1, description="pieces to be written for a text, alternatives included")
    file_limit: int = Field(5_000_000, ge=0, description="bytes of a file; 0 = no files are translated")
    file_char_limit: int = Field(100_000, ge=1, description="characters to be translated of a file")
    timeout: float = Field(30.0, gt=0, description="seconds after which a request is given up")
    header_timeout: float = Field(10.0, gt=0, description="seconds a client has to send a request's headers")
    hang_timeout: float = Field(20.0, gt=0, description="seconds without a step after which a worker is killed")
    max_connections: int = Field(1000, ge=1, description="open at a time; half of them for one address")
    shutdown_timeout: float = Field(30.0, ge=0, description="seconds running requests get to finish")
    api_keys: Path | None = Field(None, description="file of keys, one a line, optionally with its own rate limit")
    rate_limit: int | None = Field(None, ge=1, description="requests a minute for each key or address")
    trusted_proxy: str | None = Field(None, description="address whose X-Forwarded-For is believed")
    metrics_token: str | None = Field(None, description="who asks for /metrics must send it")
    suggestions: Path | None = Field(None, description="file for what users suggest, as JSON lines; null = not taken")
    glossaries: tuple[str, ...] = Field((), description="PAIR=FILE or FILE each: terms to be translated as wished")
    log_text: bool = Field(False, description="write the users' texts to the log")

    @property
    def worker_memory(self) -> int | None:
        """What one worker may hold of `max_memory`, in bytes."""
        return self.max_memory // self.workers if self.max_memory else None
