"""Do the kernels for packed lines work here? A small comparison with masked attention before they train anything."""

import logging
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from recoversat.config import ModelConfig
from recoversat.model.packed import Spans, packed_attention

_log = logging.getLogger(__name__)
_LENGTHS = (37, 3, 1, 64, 90, 12)  # of the sentences of a line; what follows is padding
_PLACES = 230
_TOLERANCE = 2e-2  # of a whole gradient, in half precision


def packed_works(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> bool:
    """Say whether attention over spans gives what masks give; a machine without Triton trains with masks, slower."""
    if config.attention_dropout:
        return False
    try:
        check_packed(config, device, dtype)
    except Exception as error:  # whatever a compiler may raise
        _log.warning("kernels for packed lines do not work here, training goes on with masks: %s", error)
        return False
    return True


def check_packed(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> None:
    """Raise an error where outputs or gradients differ, with steps and without, for as many keys as queries or less."""
    own = torch.Generator().manual_seed(0)  # a training draws the same numbers whether it is checked or not
    steps = torch.randint(0, 9, (2, _PLACES), generator=own).to(device)
    for n_keys, known in ((_PLACES, steps), (_PLACES, None), (_PLACES - 10, None)):
        sentence, keys = _numbered(_PLACES).to(device), _numbered(n_keys).to(device)
        shape = (config.n_heads, config.d_model // config.n_heads)
        rows = [torch.randn(2, n, *shape, generator=own) for n in (_PLACES, n_keys, n_keys, _PLACES)]
        *heads, pull = (one.to(device, dtype).transpose(1, 2) for one in rows)
        pull = pull * (sentence > 0)[:, None, :, None]  # nobody looks at padding
        for name, mine, other in zip(
            ("output", "gradient of the queries", "gradient of the keys", "gradient of the values"),
            _pulled(packed_attention, heads, pull, Spans.of(sentence, keys, known)),
            _pulled(_masked, [one.float() for one in heads], pull.float(), _mask(sentence, keys, known)),
            strict=True,
        ):
            difference = float((mine.float() - other).norm() / other.norm())
            if not difference <= _TOLERANCE:  # NaN too
                raise RuntimeError(f"the {name} differs by {difference:.1%}")


def _numbered(n_places: int) -> Tensor:
    """Two lines of the same sentences, in either order."""
    number = torch.arange(1, len(_LENGTHS) + 1)
    lines = [
        torch.repeat_interleave(number[order], torch.tensor(_LENGTHS)[order]) for order in (slice(None), number - 2)
    ]
    return torch.stack([F.pad(line, (0, n_places - len(line))) for line in lines])


def _mask(sentence: Tensor, keys: Tensor, steps: Tensor | None) -> Tensor:
    same = (sentence[:, :, None] == keys[:, None, :]) & (sentence > 0)[:, :, None]
    if steps is not None:
        same = same & (steps[:, None, :] <= steps[:, :, None])
    return same[:, None]


def _masked(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Attention by the formula; padding, which sees nothing, is given zeros."""
    scores = (query @ key.mT) * query.shape[-1] ** -0.5
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1).nan_to_num()
    return (weights @ value).transpose(1, 2).flatten(2)


def _pulled(attend: Callable[..., Tensor], heads: list[Tensor], pull: Tensor, seen: object) -> list[Tensor]:
    """Return the output, and the gradients of queries, keys and values for a gradient `pull` of it."""
    leaves = [one.detach().requires_grad_() for one in heads]
    out = attend(*leaves, seen)
    return [out.detach(), *torch.autograd.grad(out, leaves, pull.transpose(1, 2).flatten(2))]
