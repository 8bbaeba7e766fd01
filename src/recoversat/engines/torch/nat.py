"""The one-step baseline as an engine: sources are encoded once and written in any lengths asked for.

B sentences, S source, R translations to write, N positions of the longest, V vocabulary.
"""

from collections.abc import Sequence
from copy import copy

import numpy as np
import torch
from torch import Tensor

from recoversat.decoding.beam import NBest
from recoversat.decoding.mask_predict import mask_predict
from recoversat.decoding.oneshot import Written, decode_lengths, decode_once, decode_path
from recoversat.decoding.segmentwise import Decoded
from recoversat.decoding.stepping import Floats, Ints
from recoversat.engines.engine import Engine, Options, Sources
from recoversat.engines.pairs import Pair, side_by_side
from recoversat.engines.torch.engine import describe_torch
from recoversat.errors import UserError
from recoversat.model.nat import NatTransformer, copied_places, likeliest_lengths, upsampled
from recoversat.vocab import BLANK, N_SPECIAL

_LOGIT_ROWS = 4096  # rows whose logits exist at the same time


class TorchNatEngine(Engine):
    """Write with a NatTransformer as it is, on CPU or GPU: in the length it predicts, or in several that are judged."""

    _judge: Engine | None = None
    _n_lengths = 1

    def __init__(self, model: NatTransformer, device: torch.device) -> None:
        self._model = model.to(device).eval()
        self._device = device

    @property
    def max_segments(self) -> int:
        """A one-step model writes a single segment."""
        return 1

    @property
    def description(self) -> dict[str, str | int]:
        return describe_torch(self._model, self._device)

    def judged_by(self, teacher: Engine, n_lengths: int) -> Engine:
        if self._model.config.kind != "nat":
            return super().judged_by(teacher, n_lengths)
        judged = copy(self)
        judged._judge, judged._n_lengths = teacher, n_lengths
        return judged

    def decode(self, sources: Sources, n_segments: Ints, options: Options = Options()) -> list[Decoded]:
        """Write each sentence in one step; there is nothing to force and nothing to bound."""
        writer = self.open(sources)
        if self._model.config.kind == "ctc":
            return [decode_path(*path) for path in writer.paths()]
        if self._model.config.kind == "cmlm":
            return mask_predict(writer, options.iterations, options.lengths)
        if self._judge is None:
            return decode_once(writer)
        return decode_lengths(writer, sources, self._score_by_teacher, self._n_lengths)

    def search(self, sources: Sources, beam: int, options: Options = Options()) -> list[NBest]:
        raise UserError(f"beam {beam}: a one-step model has no beam; leave it out, or give lengths and a teacher")

    def score(self, pairs: Sequence[Pair], n_segments: int = 1) -> list[Decoded]:
        raise UserError("a one-step model gives no probability to a whole translation; use a teacher")

    @torch.inference_mode()
    def open(self, sources: Sources) -> "TorchWriter":
        """Encode the sources."""
        src = torch.from_numpy(side_by_side(sources)).to(self._device)  # (B, S)
        lengths = torch.tensor([len(source) for source in sources], device=self._device)
        return TorchWriter(self._model, src, lengths)

    def _score_by_teacher(self, sources: Sources, targets: Sequence[Sequence[int]]) -> list[float]:
        assert self._judge is not None
        judged = self._judge.score(list(zip(sources, targets, strict=True)))
        return [sum(one.log_probs[0]) for one in judged]


class TorchWriter:
    """A batch of encoded sources; see `decoding.oneshot.Writer`."""

    def __init__(self, model: NatTransformer, src: Tensor, src_lengths: Tensor) -> None:
        self._model, self._src, self._src_lengths = model, src, src_lengths
        self._positions, self._real = _places(src_lengths, src.shape[1])
        self._memory = model.encode(src, self._positions, self._real)

    def lengths(self) -> Ints:
        """Predict the target length of each source."""
        return np.asarray(self.likeliest_lengths(1)[:, 0])

    @torch.inference_mode()
    def likeliest_lengths(self, n: int) -> Ints:
        """Predict n target lengths of each source."""
        logits = self._model.length_logits(self._memory, self._real, n_sentences=1)[:, 0]  # (B, C)
        return np.asarray(likeliest_lengths(logits, self._src_lengths, n).cpu().numpy())

    @torch.inference_mode()
    def write(self, members: Ints, lengths: Ints) -> Written:
        """Take the likeliest token of every position, from a copy of the source."""
        which = torch.from_numpy(members).to(self._src.device)
        wanted = torch.from_numpy(lengths).to(self._src.device)
        steps, real = _places(wanted, int(lengths.max()))  # (R, N)
        places = copied_places(self._positions[which], self._real[which], steps, real)
        tokens, log_probs = self._likeliest(which, self._src[which].gather(1, places), steps, real)
        return Written(
            [line[:length] for line, length in zip(tokens.tolist(), lengths, strict=True)],
            [line[:length] for line, length in zip(log_probs.tolist(), lengths, strict=True)],
        )

    @torch.inference_mode()
    def fill(self, members: Ints, tokens: Ints, lengths: Ints) -> tuple[Ints, Floats]:
        """Take the likeliest token of every position, from tokens of which some are masked (CMLM)."""
        which, carried, wanted = (torch.from_numpy(one).to(self._src.device) for one in (members, tokens, lengths))
        chosen, log_probs = self._likeliest(which, carried, *_places(wanted, tokens.shape[1]))
        return chosen.cpu().numpy(), log_probs.cpu().numpy()

    @torch.inference_mode()
    def paths(self) -> list[tuple[list[int], list[float]]]:
        """Take the likeliest token or BLANK of every place of an upsampled source (CTC)."""
        times = self._model.config.upsample
        rows = upsampled(self._src, self._positions, self._real, times)
        tokens, log_probs = self._likeliest(slice(None), *rows, least=BLANK)
        ends = (self._src_lengths * times).tolist()
        both = zip(tokens.tolist(), log_probs.tolist(), ends, strict=True)
        return [(path[:end], probs[:end]) for path, probs, end in both]

    def _likeliest(
        self, which: Tensor | slice, tokens: Tensor, steps: Tensor, real: Tensor, *, least: int = N_SPECIAL
    ) -> tuple[Tensor, Tensor]:
        """Run rows that carry tokens (R, N); return the likeliest token of each from `least` on."""
        hidden = self._model.decode(tokens, steps, real, self._memory[which], self._real[which])
        chosen, log_probs = [], []
        for rows in hidden.flatten(0, 1).split(_LOGIT_ROWS):
            logits = self._model.logits(rows).float()  # (chunk, V)
            logits[:, :least] = -torch.inf
            best, token = logits.max(dim=-1)
            chosen.append(token)
            log_probs.append(best - logits.logsumexp(dim=-1))
        return torch.cat(chosen).view_as(tokens), torch.cat(log_probs).view_as(tokens)


def _places(lengths: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return positions and sentence numbers of padded lines with one sentence each."""
    positions = torch.arange(width, device=lengths.device).expand(len(lengths), width)
    return positions, (positions < lengths[:, None]).long()
