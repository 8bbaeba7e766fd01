"""Text to ids and back: a joint SentencePiece BPE, or text that is already split with '@@ '."""

import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recoversat.errors import UserError
from recoversat.files.storage import fingerprint, lines_of, write_text
from recoversat.vocab import BOS, EOS, N_SPECIAL, PAD, SPECIAL_PIECES, TERMINATORS, UNK

_MANY = 64  # lines that are worth a second thread

SENTENCEPIECE_FILE = "tokenizer.model"
BPE_FILE = "vocabulary.txt"


class Tokenizer(Protocol):
    """What the rest of the program knows of a tokenizer."""

    tags: list[str]  # what may stand before a source and is one id: the directions of a model that has several
    _pieces: list[str]

    @property
    def size(self) -> int:
        """Number of ids, the special ones included."""
        return len(self._pieces)

    def encode(self, lines: Sequence[str], tag: str = "") -> list[list[int]]:
        """Turn single lines into ids, without BOS or EOS; the first id of each is that of `tag`, if one is given."""

    def decode(self, ids: Sequence[int]) -> str:
        """Turn ids into text; special ids leave no trace."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Show each id as the piece of text it stands for."""
        return [self._pieces[i] for i in ids]

    def word_ends(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say for each token whether a word ends with it (a cut may stand after it)."""

    def begins(self) -> NDArray[np.bool_]:
        """Say of each id whether a segment that begins with it breaks no word (V,): punctuation, EOS and DEL do not."""

    def save(self, folder: Path) -> Path:
        """Write the tokenizer into a folder and return its file."""


class SentencePieceTokenizer(Tokenizer):
    """A lossless SentencePiece BPE: `decode(encode(text)) == text` for any single line.

    Nothing is normalised, unseen characters fall back to bytes, and the one character SentencePiece
    keeps for itself (U+2581, its visible space) travels escaped.

    A tokenizer for both directions knows tags such as <2de>, which no text can spell: in a line they are text like
    any other.
    """

    _SPACE, _ESCAPE = "\u2581", "\x1a"

    def __init__(self, model: bytes) -> None:
        import sentencepiece

        self._model = model
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise UserError(f"damaged {SENTENCEPIECE_FILE} ({error})") from None
        ids = range(self._processor.get_piece_size())
        self._pieces = self._processor.id_to_piece(list(ids))
        for index, piece in enumerate(SPECIAL_PIECES):
            if self._pieces[index] != piece:
                raise UserError(f"{SENTENCEPIECE_FILE}: id {index} must be {piece}; train it with 'recoversat prepare'")
        self._tags = {self._pieces[i]: i for i in takewhile(self._processor.is_control, ids[N_SPECIAL:])}
        self.tags = list(self._tags)  # the directions this tokenizer knows, e.g. <2de>
        self._first_word = 1 + max(i for i in ids if self._processor.is_control(i) or self._processor.is_byte(i))
        self._starts_word = np.array([piece.startswith(self._SPACE) for piece in self._pieces])

    @classmethod
    def train(
        cls, lines: Iterable[str], vocab_size: int, max_lines: int, tags: Sequence[str] = (), threads: int = 2
    ) -> "SentencePieceTokenizer":
        """Learn a vocabulary of at most `vocab_size` pieces from the lines of both languages."""
        import sentencepiece

        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=(cls._escape(line) for line in islice(lines, max_lines)),
                model_writer=model,
                model_type="bpe",
                vocab_size=vocab_size,
                hard_vocab_limit=False,
                character_coverage=0.9999,
                byte_fallback=True,
                split_digits=True,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                max_sentence_length=1 << 20,
                pad_id=PAD,
                bos_id=BOS,
                eos_id=EOS,
                unk_id=UNK,
                pad_piece=SPECIAL_PIECES[PAD],
                control_symbols=[SPECIAL_PIECES[-1], *tags],
                num_threads=threads,
                minloglevel=2,
            )
        except RuntimeError as error:
            if needed := re.search(r"smaller than required_chars. \d+ vs (\d+)", str(error)):
                hint = f"too small for the characters of this text; use at least {needed[1]}"
                raise UserError(f"data.vocab_size = {vocab_size} is {hint}") from None
            raise
        return cls(model.getvalue())

    def encode(self, lines: Sequence[str], tag: str = "") -> list[list[int]]:
        texts = [self._escape(line) for line in lines]
        # a list makes it start threads, which takes longer than a few sentences
        many = len(texts) >= _MANY
        ids: list[list[int]] = (
            self._processor.encode(texts, num_threads=2) if many else list(map(self._processor.encode, texts))
        )
        return [[self._tags[tag], *one] for one in ids] if tag else ids

    def decode(self, ids: Sequence[int]) -> str:
        written = [i for i in ids if i >= N_SPECIAL]
        if min(written, default=0) < self._first_word:  # bytes, which only together are text
            return self._unescape(self._processor.decode(list(map(int, written))))
        # asking SentencePiece takes ten times as long, and a sentence has many segments
        return self._unescape("".join(self.pieces(written)).replace(self._SPACE, " ").removeprefix(" "))

    def word_ends(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.append(self._starts_word[ids[1:]], True)[: len(ids)]

    def begins(self) -> NDArray[np.bool_]:
        marks = [i >= self._first_word and not any(map(str.isalnum, piece)) for i, piece in enumerate(self._pieces)]
        return np.asarray(self._starts_word | marks | np.isin(np.arange(self.size), TERMINATORS))

    def save(self, folder: Path) -> Path:
        (folder / SENTENCEPIECE_FILE).write_bytes(self._model)
        return folder / SENTENCEPIECE_FILE

    @classmethod
    def _escape(cls, line: str) -> str:
        if not line.isascii():
            line = line.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair is no text
        if cls._SPACE not in line and cls._ESCAPE not in line:
            return line
        return line.replace(cls._ESCAPE, cls._ESCAPE + "0").replace(cls._SPACE, cls._ESCAPE + "1")

    @classmethod
    def _unescape(cls, line: str) -> str:
        if cls._ESCAPE not in line:
            return line
        return line.replace(cls._ESCAPE + "1", cls._SPACE).replace(cls._ESCAPE + "0", cls._ESCAPE)


class BpeTokenizer(Tokenizer):
    """Ids for text that is already tokenised and split with '@@ ', as the paper's data is."""

    _GLUE = "@@"

    def __init__(self, pieces: Sequence[str]) -> None:
        if tuple(pieces[:N_SPECIAL]) != SPECIAL_PIECES:
            raise UserError(f"{BPE_FILE}: the first lines must be {' '.join(SPECIAL_PIECES)}")
        self._pieces = list(pieces)
        self._ids = {piece: index for index, piece in enumerate(pieces) if index >= N_SPECIAL}  # others cannot be spelt
        self._glued = np.array([piece.endswith(self._GLUE) for piece in pieces])
        self.tags = []

    @classmethod
    def train(cls, lines: Iterable[str], vocab_size: int) -> "BpeTokenizer":
        """Keep the most frequent tokens (ties in alphabetical order)."""
        counts = Counter(token for line in lines for token in line.split())
        for piece in SPECIAL_PIECES:
            counts.pop(piece, None)
        ranked = sorted(counts, key=lambda token: (-counts[token], token))
        return cls([*SPECIAL_PIECES, *ranked[: vocab_size - N_SPECIAL]])

    def encode(self, lines: Sequence[str], tag: str = "") -> list[list[int]]:
        assert not tag  # it knows none
        return [[self._ids.get(token, UNK) for token in line.split()] for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        joined = " ".join(self._pieces[i] for i in ids if i >= N_SPECIAL)
        return joined.replace(self._GLUE + " ", "").removesuffix(self._GLUE)

    def word_ends(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray(~self._glued[ids])

    def begins(self) -> NDArray[np.bool_]:
        raise UserError("decode.begin_at=word: text split with '@@ ' does not say which pieces begin a word; use token")

    def save(self, folder: Path) -> Path:
        write_text(folder / BPE_FILE, "\n".join(self._pieces) + "\n")
        return folder / BPE_FILE


def join_subwords(line: str) -> str:
    """Undo the '@@ ' of text that was split before it came to us.

    >>> join_subwords("gas cham@@ bers .")
    'gas chambers .'
    """
    return line.replace("@@ ", "")


def load_tokenizer(folder: Path) -> Tokenizer:
    if (folder / SENTENCEPIECE_FILE).is_file():
        return SentencePieceTokenizer((folder / SENTENCEPIECE_FILE).read_bytes())
    if (folder / BPE_FILE).is_file():
        return BpeTokenizer(list(lines_of(folder / BPE_FILE)))
    raise UserError(f"{folder}: no tokenizer here ({SENTENCEPIECE_FILE} or {BPE_FILE})")


def vocabulary_fingerprint(folder: Path) -> str:
    """Identify a folder's tokenizer by content."""
    return fingerprint(*sorted([*folder.glob(SENTENCEPIECE_FILE), *folder.glob(BPE_FILE)]))
