"""Refuse to train on wrong gradients: the loss of this very process against the plain formula.

torch keeps compiled code on disk and gives it to later processes. It has given a training the label smoothing of
another one, in the gradient alone, so that no loss in any log looked wrong; hence this check before the first update.
"""

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from recoversat.errors import UserError
from recoversat.training.loss import GPU_CHUNK, smoothed_cross_entropy
from recoversat.vocab import PAD

_CHECKED = 64  # rows with a label
_TOLERANCE = {torch.float32: 5e-3, torch.bfloat16: 1e-2}  # of a whole gradient; TF32 is float32 too


def check_loss(weight: Tensor, smoothing: float, fused: bool, n_rows: int) -> None:
    """Compare loss and gradients by hidden states and by `weight` (V, D), under the autocast of the training.

    Compiled code is tuned for the number of rows it sees first: that of an update; those that are not compared are PAD.
    The rows come from a generator of their own: a training draws the same numbers whether it is checked or not.
    """
    n_rows = max(min(n_rows, GPU_CHUNK), _CHECKED) if fused else _CHECKED
    device, (vocabulary, d_model) = weight.device, weight.shape
    own = torch.Generator().manual_seed(0)
    hidden = torch.randn(n_rows, d_model, generator=own).to(device).requires_grad_()
    labels = torch.full((n_rows,), PAD)
    labelled = slice(None, None, n_rows // _CHECKED)
    labels[labelled] = torch.randint(PAD + 1, vocabulary, labels[labelled].shape, generator=own)
    labels, weight = labels.to(device), weight.detach().requires_grad_()

    ours = smoothed_cross_entropy(hidden, weight, labels, smoothing, fused).smoothed
    logits = F.linear(hidden[labelled], weight)
    plain = F.cross_entropy(logits.float(), labels[labelled], label_smoothing=smoothing, reduction="sum")
    found = [ours, *torch.autograd.grad(ours, [hidden, weight])]
    wanted = [plain, *torch.autograd.grad(plain, [hidden, weight])]
    for name, mine, other in zip(("loss", "gradient", "gradient of the embeddings"), found, wanted, strict=True):
        difference = float((mine.detach() - other.detach()).norm() / other.detach().norm())
        if not difference <= _TOLERANCE[logits.dtype]:  # NaN too
            from torch._inductor.runtime.cache_dir_utils import cache_dir

            raise UserError(
                f"the {name} differs by {difference:.1%} from the plain formula's: this training would learn the wrong "
                f"thing. Delete {cache_dir()}, where torch keeps compiled code, and start again; should that not help, "
                "TORCH_COMPILE_DISABLE=1 in the environment trains without compiled code, slower"
            )
