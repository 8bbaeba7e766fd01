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
    queue_size: int = Field(512, ge=1, description="texts that may wait in one worker; more are refused with 503")
    char_limit: int = Field(10_000, ge=1, description="characters")
    text_limit: int = Field(100, ge=1, description="texts in a list")
    timeout: float = Field(30.0, gt=0, description="seconds after which a request is given up")
    shutdown_timeout: float = Field(30.0, ge=0, description="seconds running requests get to finish")
    api_keys: Path | None = Field(None, description="file of keys, one a line, optionally with its own rate limit")
    rate_limit: int | None = Field(None, ge=1, description="requests a minute for each key or address")
    trusted_proxy: str | None = Field(None, description="address whose X-Forwarded-For is believed")
    log_text: bool = Field(False, description="write the users' texts to the log")
    runtime_folder: Path | None = Field(None, description="what the workers share; made by the supervisor")

    @property
    def worker_memory(self) -> int | None:
        """What one worker may hold of `max_memory`, in bytes."""
        return self.max_memory // self.workers if self.max_memory else None
