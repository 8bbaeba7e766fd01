"""What the paper prints about the systems it compares with, its own and the Transformer, figure by figure.

This is Table 6 (Appendix B). Table 2 is a part of it, where FlowSeq is FlowSeq-large here and CMLM is CMLM-base.
"""

from dataclasses import dataclass

# Name | iterative decoding | WMT14 En-De, De-En, speedup | WMT16 En-Ro, Ro-En, speedup | IWSLT16 En-De, speedup
_TABLE_6 = """
Transformer              | -   | 27.17 | 31.95 |  1.00x | 32.86 | 32.60 |  1.00x | 31.18 | 1.00x
NAT-FT                   | -   | 17.69 | 21.47 |      - | 27.29 | 29.06 |      - | 26.52 | 15.6x
NAT-FT+NPD (n=10)        | -   | 18.66 | 22.41 |      - | 29.02 | 30.76 |      - | 27.44 | 7.68x
NAT-FT+NPD (n=100)       | -   | 19.17 | 23.20 |      - | 29.79 | 31.44 |      - | 28.16 | 2.36x
SynST                    | -   | 20.74 | 25.50 |  4.86x |     - |     - |      - | 23.82 | 3.78x
NAT-IR (iter=1)          | yes | 13.91 | 16.77 | 11.39x | 24.45 | 25.73 | 16.03x | 22.20 | 8.98x
NAT-IR (iter=10)         | yes | 21.61 | 25.48 |  2.01x | 29.32 | 30.19 |  2.15x | 27.11 | 1.55x
NAT-FS                   | -   | 22.27 | 27.25 |  3.75x | 30.57 | 30.83 |  3.70x | 27.78 | 3.38x
imitate-NAT              | -   | 22.44 | 25.67 |      - | 28.61 | 28.90 |      - | 28.41 | 18.6x
imitate-NAT+LPD (n=7)    | -   | 24.15 | 27.28 |      - | 31.45 | 31.81 |      - | 30.68 | 9.70x
PNAT                     | -   | 23.05 | 27.18 |      - |     - |     - |      - |     - |     -
PNAT+LPD (n=9)           | -   | 24.48 | 29.16 |      - |     - |     - |      - |     - |     -
NAT-REG                  | -   | 20.65 | 24.77 |      - |     - |     - |      - | 23.14 |     -
NAT-REG+LPD (n=9)        | -   | 24.61 | 28.90 |      - |     - |     - |      - | 27.02 |     -
LV NAR                   | -   | 25.10 |     - |   6.8x |     - |     - |      - |     - |     -
NART                     | -   | 21.11 | 25.24 |  30.2x |     - |     - |      - |     - |     -
NART+LPD (n=9)           | -   | 25.20 | 29.52 |  17.8x |     - |     - |      - |     - |     -
FlowSeq-base             | -   | 21.45 | 26.16 |  <1.5x | 29.34 | 30.44 |      - |     - |     -
FlowSeq-base+NPD (n=30)  | -   | 23.48 | 28.40 |  <1.5x | 31.75 | 32.49 |      - |     - |     -
FlowSeq-large            | -   | 23.72 | 28.39 |  <1.5x | 29.73 | 30.72 |      - |     - |     -
FlowSeq-large+NPD (n=30) | -   | 25.31 | 30.68 |  <1.5x | 32.20 | 32.84 |      - |     - |     -
FCL-NAT                  | -   | 21.70 | 25.32 |  28.9x |     - |     - |      - |     - |     -
FCL-NAT+NPD (n=9)        | -   | 25.75 | 29.50 |  16.0x |     - |     - |      - |     - |     -
ReorderNAT               | -   | 26.51 | 31.13 |      - | 31.70 | 31.99 |      - | 30.26 | 5.96x
NART-DCRF                | -   | 23.44 | 27.22 |  10.4x |     - |     - |      - |     - |     -
NART-DCRF+LPD (n=19)     | -   | 26.80 | 30.04 |  4.39x |     - |     - |      - |     - |     -
SAT (K=2)                | -   | 26.90 |     - |  1.51x |     - |     - |      - |     - |     -
SAT (K=6)                | -   | 24.83 |     - |  2.98x |     - |     - |      - |     - |     -
CMLM-small (iter=1)      | yes | 15.06 | 19.26 |      - | 20.12 | 20.36 |      - |     - |     -
CMLM-small (iter=10)     | yes | 25.51 | 29.47 |      - | 31.65 | 32.27 |      - |     - |     -
CMLM-base (iter=1)       | yes | 18.05 | 21.83 |      - | 27.32 | 28.20 |      - |     - |     -
CMLM-base (iter=10)      | yes | 27.03 | 30.53 |  <1.5x | 33.08 | 33.31 |      - |     - |     -
RecoverSAT (K=2)         | -   | 27.11 | 31.67 |  2.16x | 32.92 | 33.19 |  2.02x | 30.78 | 2.06x
RecoverSAT (K=5)         | -   | 26.91 | 31.22 |  3.17x | 32.81 | 32.80 |  3.16x | 30.55 | 3.28x
RecoverSAT (K=10)        | -   | 26.32 | 30.46 |  4.31x | 32.59 | 32.29 |  4.31x | 29.90 | 4.68x
"""

_COLUMNS = {  # data set -> its name in the paper, columns of BLEU and of speedup
    "iwslt16.en-de": ("IWSLT16 En-De", 8, 9),
    "wmt14.en-de": ("WMT14 En-De", 2, 4),
    "wmt14.de-en": ("WMT14 De-En", 3, 4),
    "wmt16.en-ro": ("WMT16 En-Ro", 5, 7),
    "wmt16.ro-en": ("WMT16 Ro-En", 6, 7),
}
DATA_SETS = {key: name for key, (name, *_) in _COLUMNS.items()}


@dataclass(frozen=True)
class Published:
    """One system on one data set; the figures are text, as printed ("<1.5x"), and "-" where there is none."""

    name: str
    iterative: bool
    bleu: str
    speedup: str


def published(data_set: str) -> list[Published]:
    """List the systems that have a BLEU score on a data set, in the paper's order.

    >>> published("iwslt16.en-de")[-1]
    Published(name='RecoverSAT (K=10)', iterative=False, bleu='29.90', speedup='4.68x')
    """
    _, bleu, speedup = _COLUMNS[data_set]
    rows = [[cell.strip() for cell in line.split("|")] for line in _TABLE_6.strip().splitlines()]
    return [Published(row[0], row[1] == "yes", row[bleu], row[speedup]) for row in rows if row[bleu] != "-"]
