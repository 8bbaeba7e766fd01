"""The paper's definitions in plain Python, one sentence at a time: tests compare the program with them.

Written from the paper (sections and equations are named), and from docs/paper-choices.md where the paper leaves
something open. Nothing of the program is used but the ids of the special tokens. Chance is never drawn here: a function
takes what was drawn, or returns every outcome with its exact probability.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from typing import NamedTuple

from recoversat.vocab import BOS, DEL, EOS, PAD

Ids = Sequence[int]
Segments = list[list[int]]
Cuts = list[int]  # cut c is after token c, counted from 1


class Row(NamedTuple):
    """One position of the decoder: what it reads, what it predicts (PAD: nothing), and where it is."""

    token: int
    label: int
    step: int
    segment: int


def equal(n: int, m: int) -> Cuts:
    """EQUAL(n, m) of Section 3.2.1, with its ceilings in whole numbers."""
    return [(i * n + m) // (m + 1) for i in range(1, m + 1)]


def allowed_places(n: int, may_cut: Sequence[bool] | None) -> Cuts:
    """Places 1..n where a cut may be; at word ends only (`train.cut_at`), the end of the target is always one."""
    return [place for place in range(1, n + 1) if may_cut is None or may_cut[place - 1] or place == n]


def equal_cuts(n: int, m: int, may_cut: Sequence[bool] | None = None) -> Cuts:
    """EQUAL, each cut moved right to the next place where one may be."""
    return [min((place for place in allowed_places(n, may_cut) if place >= cut), default=n) for cut in equal(n, m)]


def rand_cuts(n: int, m: int, drawn: Ids) -> Cuts:
    """RAND(n, m) of Section 3.2.1 from distinct places in the order in which they were drawn; missing ones are n."""
    return sorted([*drawn[:m], *[n] * (m - len(drawn))])


def divide(target: Ids, cuts: Cuts, copy: tuple[int, int] | None = None) -> Segments:
    """Cut a target; `copy` = (i, m): repeat the first m tokens of segment i to its right (Section 3.2.2).

    >>> divide([11, 12, 13, 14, 15], [2], copy=(0, 1))
    [[11, 12, 2], [11, 4], [13, 14, 15, 2]]
    """
    segments = [[*target[start:end], EOS] for start, end in pairwise([0, *cuts, len(target)])]
    if copy is not None:
        chosen, m = copy
        segments.insert(chosen + 1, [*segments[chosen][:m], DEL])
    return segments


def divided_evenly(target: Ids, n_segments: int) -> Segments:
    """Divide with p = q = 0, as at the end of the training."""
    return divide(target, equal(len(target), n_segments - 1))


def divided_by(
    target: Ids, n_segments: int, p: float, q: float, draws: Sequence[float], may_cut: Sequence[bool] | None = None
) -> Segments:
    """Divide with numbers from [0, 1): for s, the repetition, its segment, its m; then one for each place of RAND."""
    s, repeat, which, how_many, *keys = draws
    is_repeated = repeat < q and n_segments > 1 and len(target) > 0
    n, m = len(target), n_segments - 1 - is_repeated
    drawn = sorted(allowed_places(n, may_cut), key=lambda place: keys[place - 1])
    cuts = rand_cuts(n, m, drawn) if s < p else equal_cuts(n, m, may_cut)
    if not is_repeated:
        return divide(target, cuts)
    sizes = [end - start for start, end in pairwise([0, *cuts, n])]
    not_empty = [i for i, size in enumerate(sizes) if size]
    chosen = not_empty[int(which * len(not_empty))]
    return divide(target, cuts, (chosen, 1 + int(how_many * sizes[chosen])))


def every_division(
    target: Ids, n_segments: int, p: Fraction, q: Fraction, may_cut: Sequence[bool] | None = None
) -> dict[tuple[tuple[int, ...], ...], Fraction]:
    """Return every outcome of a division with its probability."""
    n = len(target)
    found: dict[tuple[tuple[int, ...], ...], Fraction] = defaultdict(Fraction)
    for is_repeated in (False, True) if n_segments > 1 and n else (False,):
        share = (q if is_repeated else 1 - q) if n_segments > 1 and n else Fraction(1)
        m = n_segments - 1 - is_repeated
        places = allowed_places(n, may_cut)
        samples = list(combinations(places, min(m, len(places))))
        ways = [(equal_cuts(n, m, may_cut), 1 - p)]
        ways += [(rand_cuts(n, m, sample), p / len(samples)) for sample in samples]
        for cuts, chance in ways:
            for copy, part in _copies([end - start for start, end in pairwise([0, *cuts, n])], is_repeated):
                found[tuple(map(tuple, divide(target, cuts, copy)))] += share * chance * part
    return {outcome: chance for outcome, chance in found.items() if chance}


def _copies(sizes: Sequence[int], is_repeated: bool) -> list[tuple[tuple[int, int] | None, Fraction]]:
    """Return every pseudo repetition: a segment that is not empty, and m from [1, its size], both uniform."""
    if not is_repeated:
        return [(None, Fraction(1))]
    filled = [(i, size) for i, size in enumerate(sizes) if size]
    return [((i, m), Fraction(1, len(filled) * size)) for i, size in filled for m in range(1, size + 1)]


def rows(segments: Segments, train_on_copies: bool = False) -> list[Row]:
    """Turn segments into rows: each predicts a token from the one before it; of a repetition only DEL is trained."""
    found = []
    for i, segment in enumerate(segments):
        for t, token in enumerate(segment):
            is_copied = segment[-1] == DEL and token != DEL
            label = PAD if is_copied and not train_on_copies else token
            found.append(Row(segment[t - 1] if t else BOS, label, t, i))
    return found


def sees(query: Row, key: Row) -> bool:
    """Say whether a row is conditioned on another: Eq. 3 gives S^i_t all S^j_<t, which rows up to step t read."""
    return key.step <= query.step


def assemble(segments: Segments) -> list[int]:
    """Join what is not deleted (Section 3.1)."""
    return [token for segment in segments if DEL not in segment for token in segment if token != EOS]


def repeated_ratio(translations: Sequence[Ids]) -> Fraction:
    """r(Y) of Section 4.5, sum for sum; tokens are y_1, y_2, ..."""
    repeated = total = 0
    for y in translations:
        total += len(y)
        for j in range(2, len(y) + 1):
            repeated += sum(j - i >= 1 and y[j - 1] == y[j - i - 1] for i in range(1, 10)) >= 1
    return Fraction(repeated, total)


def missing_ratio(translations: Sequence[Ids], references: Sequence[Ids]) -> Fraction:
    """m(Y, reference) of Section 4.5; w are the distinct tokens of a reference (docs/paper-choices.md)."""
    missing = 0
    for y, reference in zip(translations, references, strict=True):
        written, wanted = Counter(y), Counter(reference)
        missing += sum(max(wanted[w] - written[w], 0) for w in wanted)
    return Fraction(missing, sum(map(len, references)))


def relative_increment(ratio: Fraction, at_ratio: Fraction) -> Fraction:
    """Rep or Mis, in percent."""
    return 100 * (ratio - at_ratio) / at_ratio
