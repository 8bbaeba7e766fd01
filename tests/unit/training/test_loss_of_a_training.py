"""A training minimises the loss its config asks for, and refuses to start with a wrong one."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from recoversat.config import Config, parse_config
from recoversat.data.corpus import Corpus
from recoversat.errors import UserError
from recoversat.training import loss
from recoversat.training.loop import train
from recoversat.training.loss_check import check_loss
from tests.unit.training.tiny import settings


def config(kind: str = "segments", **train_: Any) -> Config:
    given = settings(**{"steps": 2, "save_every": 1, "log_every": 1} | train_)
    return parse_config(given | {"model": given["model"] | {"kind": kind}})


def with_the_gradient_of_another_smoothing(logits: Tensor, labels: Tensor, smoothing: Tensor) -> tuple[Tensor, ...]:
    """Do what compiled code of another run did: the loss is right, its gradient is not."""
    smoothed, nll, _ = loss._chunk_loss_to_fuse(logits, labels, smoothing)
    return smoothed, nll, loss._chunk_loss_to_fuse(logits, labels, smoothing + 0.05)[2]


@pytest.mark.parametrize("kind", ["segments", "nat"])
def test_loss_of_an_update_follows_the_label_smoothing_of_the_config(kind: str, corpus: Corpus, tmp_path: Path) -> None:
    logged = {}
    for smoothing in (0.0, 0.1, 0.3):
        run = tmp_path / str(smoothing)
        train(config(kind, label_smoothing=smoothing, segments=1, steps=1), corpus, run, device="cpu", quiet=True)
        logged[smoothing] = json.loads((run / "log.jsonl").read_text(encoding="utf-8").splitlines()[0])
    nll = logged[0.0]["nll"]
    assert {line["nll"] for line in logged.values()} == {nll}
    assert logged[0.0]["loss"] == pytest.approx(nll, rel=1e-6)
    small, large = logged[0.1]["loss"] - nll, logged[0.3]["loss"] - nll  # s * (mean of all classes - nll)
    assert abs(small) > 1e-4
    assert large == pytest.approx(3 * small, rel=1e-2)


def test_a_wrong_gradient_is_refused_before_the_first_update_and_on_resuming(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(name: str) -> int:
        return train(config(segments=10), corpus, tmp_path / name, device="cpu", quiet=True).update

    with monkeypatch.context() as stopped:
        stopped.setattr("recoversat.training.loop._StopSign.heard", lambda *_: True)
        with pytest.raises(UserError, match="stopped at update 1"):
            start("begun")
    with monkeypatch.context() as planted:
        planted.setattr(loss, "_chunk_loss", with_the_gradient_of_another_smoothing)
        for name in ("new", "begun"):
            with pytest.raises(UserError, match=r"gradient differs by .*%.*Delete .*TORCH_COMPILE_DISABLE=1"):
                start(name)
    assert not (tmp_path / "new" / "log.jsonl").exists()
    assert start("begun") == start("new") == 2


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_compiled_code_of_another_run_is_refused(smoothing: float, bf16: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.randn(300, 12, generator=torch.Generator().manual_seed(1)) * 0.05
    before = torch.random.get_rng_state()
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        monkeypatch.setattr(loss, "_fused_loss", lambda: loss._chunk_loss_to_fuse)
        check_loss(weight, smoothing, fused=True, n_rows=3000)
        monkeypatch.setattr(loss, "_fused_loss", lambda: with_the_gradient_of_another_smoothing)
        with pytest.raises(UserError, match="gradient differs"):
            check_loss(weight, smoothing, fused=True, n_rows=3000)
    assert torch.equal(torch.random.get_rng_state(), before)  # a checked training draws what an unchecked one draws


def test_a_wrong_loss_and_a_gradient_that_is_no_number_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.ones(30, 8)
    true_loss = loss._chunk_loss
    monkeypatch.setattr(loss, "_chunk_loss", lambda *given: (true_loss(*given)[0] * 1.1, *true_loss(*given)[1:]))
    with pytest.raises(UserError, match="the loss differs by 10"):
        check_loss(weight, 0.1, fused=False, n_rows=1)
    monkeypatch.setattr(loss, "_chunk_loss", lambda *given: (*true_loss(*given)[:2], true_loss(*given)[2] * torch.nan))
    with pytest.raises(UserError, match="gradient differs by nan"):
        check_loss(weight, 0.1, fused=False, n_rows=1)
