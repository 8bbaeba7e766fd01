"""Training, from a prepared corpus to the best checkpoint, in one function to read: `train`."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from recoversat.config import Config, TrainConfig, to_yaml
from recoversat.data.batching import Batch, Batches, random_prob_at
from recoversat.data.corpus import Corpus
from recoversat.data.randomness import derived_seed
from recoversat.errors import UserError
from recoversat.files.model_folder import (
    is_int8_alone,
    model_fingerprint,
    origin_of,
    read_config,
    resolve_model,
    weights_fingerprint,
)
from recoversat.files.storage import held, write_text
from recoversat.model.build import Model, build_model
from recoversat.model.weights import start_from_teacher
from recoversat.pipeline.stopping import stop_signals
from recoversat.show.progress import Bar, progress
from recoversat.text.tokenizer import vocabulary_fingerprint
from recoversat.training.checkpoint import Checkpoints, TrainingState, set_aside
from recoversat.training.loss_check import check_loss
from recoversat.training.muon import Muon
from recoversat.training.objective import Objective, OwnObjective, batch_loss
from recoversat.training.packed_check import packed_works
from recoversat.training.processes import Processes, join_processes
from recoversat.training.run_folder import claim_run, cut_log
from recoversat.training.schedules import learning_rate

Validate = Callable[[Model], float]  # returns BLEU
LONG_LINE = 1024  # rows of a line where attention stays inside of sentences by itself: the longer, the less padding


@dataclass(frozen=True)
class Initialisation:
    """Where a student starts: parts of a trained teacher."""

    teacher: Path
    parts: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """Identify the teacher's weights and what is taken of them."""
        own = model_fingerprint if is_int8_alone(self.teacher) else weights_fingerprint
        return f"{own(self.teacher)} ({' '.join(self.parts)})"


def start_point(teacher: Path | None, with_decoder: bool = False) -> Initialisation | None:
    """Start from a teacher's encoder and shared embeddings, as the paper does, or from its decoder too."""
    if teacher is None:
        return None
    parts = ("encoder.", "embedding.", *(("decoder.",) if with_decoder else ()))
    return Initialisation(resolve_model(teacher), parts)


def train(
    config: Config,
    corpus: Corpus,
    run: Path,
    *,
    validate: Validate | None = None,
    start_from: Initialisation | None = None,
    device: str = "auto",
    force: bool = False,
    quiet: bool = False,
    title: str = "train",
) -> TrainingState:
    """Train until `config.train.steps`; started again after a kill it continues exactly where it was."""
    stop = _StopSign()
    with join_processes(device) as processes, stop_signals(stop.ask), _alone(run, processes):
        if start_from and vocabulary_fingerprint(start_from.teacher) != vocabulary_fingerprint(corpus.folder):
            raise UserError(f"cannot start from {start_from.teacher}: its vocabulary is not that of {corpus.folder}")
        sized = config.model.model_copy(update={"vocab_size": corpus.tokenizer.size})
        config = config.model_copy(update={"data": corpus.config, "model": sized})
        own = OwnObjective.load(config.train.objective) if config.train.objective else None
        facts = {"corpus": corpus.fingerprint, "initialised_from": start_from.fingerprint if start_from else None}
        facts |= {"objective": own.fingerprint} if own else {}
        facts |= origin_of(read_config(start_from.teacher)[1] if start_from else {})
        facts |= origin_of(corpus.manifest.get("distilled", {}))
        if processes.is_main:
            claim_run(run, config, facts, force=force)
            write_text(run / "config.yaml", to_yaml(config))
        processes.wait()
        trainer = _Trainer(config, processes, start_from, own or batch_loss)
        checkpoints = Checkpoints(run, config, corpus.tokenizer, facts)
        state, damaged = checkpoints.resume(trainer.model, trainer.optimizer)
        processes.wait()  # until all have read
        if processes.is_main:
            set_aside(damaged)
        trainer.check()
        batches = Batches.of(
            corpus.train, config.train, corpus.tokenizer.word_ends, processes.rank, processes.world,
            dealt=config.model.kind == "sat", least=LONG_LINE if trainer.model.packed else 0,
        )  # fmt: skip
        with (
            closing(_Log(run, config, state.update, processes.is_main)) as log,
            progress(title, config.train.steps, state.update, quiet or not processes.is_main) as bar,
        ):
            for update, share in enumerate(_load(batches, state.update), state.update):
                n_tokens = sum(batch.n_target_tokens for batch in share)
                log.pending.append((update, trainer.update(update, share), n_tokens))
                state.update = update + 1
                bar.advance(1, log.flush_if_due(state, trainer.device))
                stopping = stop.heard(processes, _due(state.update, config.train.log_every, config.train.steps))
                if _due(state.update, config.train.validate_every, config.train.steps):  # a stop does not lose it
                    _validate(trainer.model, validate, state, checkpoints, log, bar, processes)
                saving = _due(state.update, config.train.save_every, config.train.steps)
                if stopping or saving:
                    log.flush()
                    if processes.is_main:
                        checkpoints.save(trainer.model, trainer.optimizer, state, stopped=not saving)
                    processes.wait()
                if stopping:
                    raise UserError(f"stopped at update {state.update}; the same command continues from there")
        return state


def _alone(run: Path, processes: Processes) -> AbstractContextManager[Any]:
    return held(run, "another training is at work here; wait for it or stop it") if processes.is_main else nullcontext()


class _Trainer:
    """Model and optimizer, and what one update does to them."""

    def __init__(
        self, config: Config, processes: Processes, start_from: Initialisation | None, objective: Objective
    ) -> None:
        self.config, self.processes, self.device = config, processes, processes.device
        self.objective = objective
        torch.manual_seed(derived_seed(config.train.seed))
        model = build_model(config.model)
        if start_from:
            start_from_teacher(model, start_from.teacher, start_from.parts)
        self.model = model.to(self.device).train()
        on_gpu = self.device.type == "cuda"
        self.optimizer = _optimizer(self.model, config.train, on_gpu)
        self.bf16 = config.train.precision == "bf16" or (config.train.precision == "auto" and on_gpu)
        compiled = on_gpu and config.train.steps >= 5000 if config.train.compile == "auto" else config.train.compile
        self.fused_loss = on_gpu or config.train.compile is True
        self.model.packed = self.bf16 and on_gpu and packed_works(config.model, self.device, torch.bfloat16)
        if compiled:  # layer by layer: all layers of a kind share one compiled function
            _tune_compiler()
            for layer in [*self.model.encoder.layers, *self.model.decoder.layers]:
                layer.compile()
        if on_gpu:
            torch.set_float32_matmul_precision("high")

    def check(self) -> None:
        """Refuse to train with a loss that is not the plain formula's."""
        train = self.config.train
        with self._autocast():
            check_loss(self.model.embedding.weight, train.label_smoothing, self.fused_loss, train.batch_tokens)

    def update(self, update: int, share: list[Batch]) -> Tensor:
        """Do one optimizer step; return (smoothed loss, nll, labels), summed over all processes."""
        torch.manual_seed(derived_seed(self.config.train.seed, update, self.processes.rank))  # dropout's address
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.config.train, self.config.model.d_model, update)
        totals = torch.zeros(3, device=self.device)
        for batch in share:
            with self._autocast():
                loss = self.objective(
                    self.model, batch.to(self.device), self.config.train.label_smoothing, self.fused_loss
                )
            loss.smoothed.backward()
            totals += torch.stack([loss.smoothed.detach(), loss.nll, loss.n_labels])
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self.model.parameters()]
        self.processes.sum([*gradients, totals])
        torch._foreach_div_(gradients, totals[2])  # normalised by the labels of the whole update
        if self.config.train.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.train.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return totals

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16)


def _tune_compiler() -> None:
    """Leave sums over rows and over columns to kernels of their own: d 768 takes 155 ms an update instead of 200."""
    from torch._inductor import config as inductor

    if hasattr(inductor.triton, "mix_order_reduction"):  # since torch 2.10
        inductor.triton.mix_order_reduction = False


def _optimizer(model: Model, train: TrainConfig, fused: bool) -> torch.optim.Optimizer:
    adam: dict[str, Any] = {"lr": 0.0, "betas": (0.9, train.adam_beta2), "eps": 1e-9, "fused": fused}
    adam["weight_decay"] = train.weight_decay
    return Muon(model, **adam) if train.optimizer == "muon" else torch.optim.AdamW(model.parameters(), **adam)


class _Log:
    """The log of a run: one JSON line an update, TensorBoard, and a stop when the loss is not finite."""

    def __init__(self, run: Path, config: Config, first_update: int, is_main: bool) -> None:
        self.run, self.config, self.is_main = run, config, is_main
        self.pending: list[tuple[int, Tensor, int]] = []
        self.since = time.monotonic()
        self.loss, self.bleu = float("nan"), ""  # what was seen last
        self.writer: Any = None
        if is_main:
            cut_log(run / "log.jsonl", first_update)
        if is_main and config.train.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self.writer = SummaryWriter(str(run / "tensorboard"), purge_step=first_update)

    def flush_if_due(self, state: TrainingState, device: torch.device) -> str:
        """Write pending updates when it is time (each update on a CPU, where asking costs nothing)."""
        due = _due(state.update, self.config.train.log_every, self.config.train.steps)
        return self.flush() if due else (self._check(self.pending[-1:]) if device.type == "cpu" else "")

    def flush(self) -> str:
        """Write what is pending and return a note for the progress bar."""
        if not self.pending:
            return ""
        self._check(self.pending)
        seconds = time.monotonic() - self.since
        rate = sum(n for _, _, n in self.pending) / max(seconds, 1e-9)
        lines = [self._line(update, totals, rate) for update, totals, _ in self.pending]
        self._write(lines)
        self.pending, self.since, self.loss = [], time.monotonic(), lines[-1]["loss"]
        return f"loss {self.loss:.3f}{self.bleu}  {rate:,.0f} tokens/s"

    def validation(self, update: int, bleu: float) -> None:
        """Note a BLEU score; the time it took is not training time."""
        self._write([{"step": update, "validation_bleu": bleu}])
        self.since, self.bleu = time.monotonic(), f"  validation BLEU {bleu:.2f}"

    def close(self) -> None:
        """Let go of TensorBoard's thread."""
        if self.writer:
            self.writer.close()

    def _write(self, lines: list[dict[str, float]]) -> None:
        """Append to the log; TensorBoard gets the last line."""
        if self.is_main:
            with open(self.run / "log.jsonl", "a", encoding="utf-8") as stream:
                stream.writelines(json.dumps(line) + "\n" for line in lines)
        if self.writer:
            for name in lines[-1].keys() - {"step"}:
                self.writer.add_scalar(name, lines[-1][name], lines[-1]["step"])

    def _line(self, update: int, totals: Tensor, rate: float) -> dict[str, float]:
        smoothed, nll, n_labels = totals.tolist()
        return {
            "step": update + 1,
            "loss": smoothed / n_labels,
            "nll": nll / n_labels,
            "learning_rate": learning_rate(self.config.train, self.config.model.d_model, update),
            "random_prob": random_prob_at(self.config.train, update),
            "tokens_per_second": round(rate),
        }

    def _check(self, pending: list[tuple[int, Tensor, int]]) -> str:
        for update, totals, _ in pending:
            if not torch.isfinite(totals).all():
                raise UserError(
                    f"the loss is not finite at update {update + 1}; stopped, the last checkpoint in "
                    f"{self.run / 'checkpoints'} is good. Try a lower train.learning_rate, more train.warmup "
                    "or train.clip_norm=1"
                )
        return ""


def _validate(
    model: Model, validate: Validate | None, state: TrainingState, checkpoints: Checkpoints, log: _Log, bar: Bar,
    processes: Processes,
) -> None:  # fmt: skip
    """Let the main process measure BLEU, keep the best model and say how it stands."""
    if validate is None:
        return
    log.flush()
    if processes.is_main:
        model.eval()
        bleu = validate(model)
        model.train()
        log.validation(state.update, bleu)
        if state.best_bleu is None or bleu > state.best_bleu:
            state.best_bleu, state.best_update = bleu, state.update
            checkpoints.save_best(model, state)
        best = "the best so far" if state.best_update == state.update else f"best {state.best_bleu:.2f}"
        bar.say(f"update {state.update:,}: loss {log.loss:.3f}, validation BLEU {bleu:.2f} ({best})")
    processes.wait()


def _load(batches: Batches, first: int) -> Iterator[list[Batch]]:
    """Divide and pack ahead of the training, in worker processes where the config asks for them."""
    workers = batches.config.workers
    loader: DataLoader[list[Batch]] = DataLoader(
        batches,  # type: ignore[arg-type]
        batch_size=None,
        sampler=range(first, batches.config.steps),
        num_workers=workers,
        prefetch_factor=4 if workers else None,
        worker_init_fn=_end_with_the_training,
    )
    return iter(loader)


def _end_with_the_training(worker: int) -> None:
    """Let a worker end when its training does, and not before, by a signal to the whole group of processes.

    torch's own workers outlive a training that is killed while they hand a batch over: the pipe is full for ever.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    training = os.getppid()

    def watch() -> None:
        while os.getppid() == training:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _due(update: int, every: int, total: int) -> bool:
    return update % every == 0 or update == total


@dataclass
class _StopSign:
    """Turns Ctrl-C and a polite kill into a checkpoint and a clean stop."""

    asked: bool = False

    def heard(self, processes: Processes, meeting: bool) -> bool:
        """Say whether to stop here: several processes must stop at the same update, so they agree when they meet."""
        return (meeting or processes.world == 1) and processes.any(self.asked)

    def ask(self, signum: int, frame: FrameType | None) -> None:
        if self.asked:  # the second time in a row is meant
            raise KeyboardInterrupt
        self.asked = True
