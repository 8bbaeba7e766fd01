"""Attention over spans of packed lines sees what a mask lets it see, and its check notices where it does not."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from recoversat.config import ModelConfig
from recoversat.model.packed import Spans
from recoversat.model.transformer import Transformer, what_is_seen
from recoversat.training import packed_check
from recoversat.training.packed_check import check_packed, packed_works

CONFIG = ModelConfig(d_model=32, d_hidden=16, n_heads=2, encoder_layers=1, decoder_layers=1, vocab_size=50)
CPU = torch.device("cpu")


def mask_of(spans: Spans, n_keys: int) -> Tensor:
    """Return (B, 1, N, M) from what each query is told."""
    places = torch.arange(n_keys)
    seen = (places >= spans.first[..., None]) & (places < spans.end[..., None])
    if spans.step.numel():
        seen &= spans.key_step[:, None, :] <= spans.step[:, :, None]
    return seen[:, None]


def mask_of_keys(spans: Spans, n_queries: int) -> Tensor:
    """Return (B, 1, N, M) from what each key is told."""
    places = torch.arange(n_queries)
    seen = (places >= spans.key_first[..., None]) & (places < spans.key_end[..., None])
    if spans.step.numel():
        seen &= spans.step[:, None, :] >= spans.key_step[:, :, None]
    return seen.mT[:, None]


SENTENCES = torch.tensor([[2, 2, 2, 1, 1, 3, 0, 0], [1, 2, 2, 2, 2, 2, 2, 2]])
KEYS = torch.tensor([[3, 1, 1, 1, 2, 0], [2, 2, 2, 2, 1, 0]])
STEPS = torch.tensor([[0, 1, 0, 0, 1, 0, 0, 0], [0, 0, 1, 2, 0, 1, 0, 1]])


@pytest.mark.parametrize(("keys", "steps"), [(SENTENCES, STEPS), (SENTENCES, None), (KEYS, None)])
def test_spans_say_what_the_mask_says(keys: Tensor, steps: Tensor | None) -> None:
    model = Transformer(CONFIG).train()
    allowed = what_is_seen(model, SENTENCES, keys, steps)
    model.packed = True
    spans = what_is_seen(model, SENTENCES, keys, steps)
    assert isinstance(allowed, Tensor)
    assert isinstance(spans, Spans)
    real = (SENTENCES > 0)[:, None, :, None]
    assert torch.equal(mask_of(spans, keys.shape[1]), allowed & real)
    assert torch.equal(mask_of_keys(spans, SENTENCES.shape[1]), allowed & real)


def test_a_packed_model_decodes_with_masks() -> None:
    model = Transformer(CONFIG).eval()
    model.packed = True
    assert isinstance(what_is_seen(model, SENTENCES, SENTENCES), Tensor)


def by_mask(change: Callable[[Spans], Spans]) -> Callable[..., Tensor]:
    """Return attention over changed spans, done with a mask."""

    def attend(query: Tensor, key: Tensor, value: Tensor, spans: Spans) -> Tensor:
        return packed_check._masked(query, key, value, mask_of(change(spans), key.shape[2]))

    return attend


FAULTS: dict[str, Callable[[Spans], Spans]] = {
    "sees one place too many": lambda spans: spans._replace(end=spans.end + 1),
    "misses its first place": lambda spans: spans._replace(first=spans.first + 1),
    "looks a step ahead": lambda spans: spans._replace(step=spans.step + 1) if spans.step.numel() else spans,
    "knows no steps": lambda spans: spans._replace(step=spans.step[:0]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_attention_that_sees_something_else_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_check, "packed_attention", by_mask(lambda spans: spans))
    check_packed(CONFIG, CPU, torch.float32)
    monkeypatch.setattr(packed_check, "packed_attention", by_mask(FAULTS[fault]))
    with pytest.raises(RuntimeError, match="differs by"):
        check_packed(CONFIG, CPU, torch.float32)


class _WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, *grads: Tensor) -> Tensor:
        return grads[0] * 1.05


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_wrong_gradient_is_noticed(wrong: int, monkeypatch: pytest.MonkeyPatch) -> None:
    right = by_mask(lambda spans: spans)

    def attend(*given: Tensor) -> Tensor:
        *heads, spans = given
        heads[wrong] = _WrongGradient.apply(heads[wrong])
        return right(*heads, spans)

    monkeypatch.setattr(packed_check, "packed_attention", attend)
    with pytest.raises(RuntimeError, match="gradient of the"):
        check_packed(CONFIG, CPU, torch.float32)


def test_where_kernels_are_missing_training_goes_on_with_masks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "recoversat.model.packed_kernels", None)  # as if Triton were missing
    assert not packed_works(CONFIG, CPU, torch.float32)
    assert "training goes on with masks" in caplog.text


def test_attention_with_dropout_has_no_such_kernels() -> None:
    assert not packed_works(CONFIG.model_copy(update={"attention_dropout": 0.1}), CPU, torch.float32)


def test_the_kernels_do_what_masks_do() -> None:
    """Triton's interpreter runs them on a CPU, where Triton is installed."""
    pytest.importorskip("triton")
    program = """
import torch
from recoversat.config import ModelConfig
from recoversat.training.packed_check import check_packed
for width in (32, 40):  # heads of 16, and of 20 that are filled up
    check_packed(ModelConfig(d_model=width, n_heads=2), torch.device("cpu"), torch.float32)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
