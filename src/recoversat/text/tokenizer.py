"""Text to ids and back: a joint SentencePiece BPE, or text that is already split with '@@ '."""

import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from recoversat.errors import UserError
from recoversat.files.storage import fingerprint, lines_of, read_json, write_text
from recoversat.vocab import BOS, EOS, N_SPECIAL, PAD, SPECIAL_PIECES, TERMINATORS, UNK

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

_MANY = 64  # lines that are worth a second thread

SENTENCEPIECE_FILE = "tokenizer.model"
BPE_FILE = "vocabulary.txt"
MARIAN_FILE, SOURCE_SPM, TARGET_SPM = "vocabulary.json", "source.spm", "target.spm"
FILES = (SENTENCEPIECE_FILE, BPE_FILE, MARIAN_FILE, SOURCE_SPM, TARGET_SPM)


class Tokenizer(Protocol):
    """What the rest of the program knows of a tokenizer."""

    tags: list[str]  # what may stand before a source and is one id: the directions of a model that has several
    _pieces: list[str]

    @property
    def size(self) -> int:
        """Number of ids, the special ones included."""
        return len(self._pieces)

    def encode(self, lines: Sequence[str], tag: str = "") -> list[list[int]]:
        """Turn single lines of source text into ids as a model reads them; the first is that of `tag`, if given."""

    def encode_targets(self, lines: Sequence[str]) -> list[list[int]]:
        """Turn single lines of target text into ids, without BOS or EOS."""
        return self.encode(lines)

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


class MarianTokenizer(Tokenizer):
    """Two SentencePiece models, one for each side, and one vocabulary: what OPUS-MT's models are trained on.

    Pieces are looked up in the vocabulary, as Hugging Face's MarianTokenizer does. A source ends with EOS; before it
    stands the `target_token` (">>fra<<") of a model that has several target languages. Text is normalised as the
    SentencePiece models say, and characters they do not know are lost.
    """

    _SPACE = "\u2581"
    _CODE = re.compile(r">>.+<<")

    def __init__(self, source: bytes, target: bytes, pieces: Sequence[str], target_token: str | None = None) -> None:
        import sentencepiece

        if tuple(pieces[:N_SPECIAL]) != SPECIAL_PIECES:
            raise UserError(f"{MARIAN_FILE}: the first pieces must be {' '.join(SPECIAL_PIECES)}; import it again")
        self._models, self._pieces, self._target_token, self.tags = (source, target), list(pieces), target_token, []
        try:
            self._source, self._target = (
                sentencepiece.SentencePieceProcessor(model_proto=model) for model in self._models
            )
        except RuntimeError as error:
            raise UserError(f"damaged {SOURCE_SPM} or {TARGET_SPM} ({error})") from None
        self._ids = {piece: index for index, piece in enumerate(pieces) if index >= N_SPECIAL}
        if target_token and target_token not in self._ids:
            raise UserError(f"{MARIAN_FILE}: no {target_token} in it; import the model again")
        self._before = [self._ids[target_token]] if target_token else []
        self._codes = {index for piece, index in self._ids.items() if self._CODE.fullmatch(piece)}
        self._starts_word = np.array([piece.startswith(self._SPACE) for piece in pieces])

    @classmethod
    def load(cls, folder: Path) -> "MarianTokenizer":
        """Read the three files of a model folder."""
        noted = read_json(folder / MARIAN_FILE, "vocabulary")
        try:
            source, target = ((folder / name).read_bytes() for name in (SOURCE_SPM, TARGET_SPM))
            return cls(source, target, noted["pieces"], noted["target_token"])
        except (FileNotFoundError, KeyError, TypeError) as error:
            raise UserError(f"{folder}: damaged tokenizer ({error}); import the model again") from None

    def encode(self, lines: Sequence[str], tag: str = "") -> list[list[int]]:
        assert not tag  # it knows none
        return [[*self._before, *ids, EOS] if ids else [] for ids in self._looked_up(self._source, lines)]

    def encode_targets(self, lines: Sequence[str]) -> list[list[int]]:
        return self._looked_up(self._target, lines)

    def _looked_up(self, processor: "SentencePieceProcessor", lines: Sequence[str]) -> list[list[int]]:
        texts = [line.encode("utf-8", "replace").decode("utf-8") for line in lines]  # half a surrogate pair is no text
        pieces: list[list[str]] = (
            processor.encode(texts, out_type=str, num_threads=2)
            if len(texts) >= _MANY
            else [processor.encode(text, out_type=str) for text in texts]
        )
        return [[self._ids.get(piece, UNK) for piece in line] for line in pieces]

    def decode(self, ids: Sequence[int]) -> str:
        written = self.pieces([i for i in ids if i >= N_SPECIAL and i not in self._codes])
        return "".join(written).replace(self._SPACE, " ").removeprefix(" ")

    def word_ends(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.append(self._starts_word[ids[1:]], True)[: len(ids)]

    def begins(self) -> NDArray[np.bool_]:
        marks = [i >= N_SPECIAL and not any(map(str.isalnum, piece)) for i, piece in enumerate(self._pieces)]
        return np.asarray(self._starts_word | marks | np.isin(np.arange(self.size), TERMINATORS))

    def save(self, folder: Path) -> Path:
        for name, model in zip((SOURCE_SPM, TARGET_SPM), self._models, strict=True):
            (folder / name).write_bytes(model)
        noted = {"target_token": self._target_token, "pieces": self._pieces}
        write_text(folder / MARIAN_FILE, json.dumps(noted, ensure_ascii=False))
        return folder / MARIAN_FILE


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
    if (folder / MARIAN_FILE).is_file():
        return MarianTokenizer.load(folder)
    raise UserError(f"{folder}: no tokenizer here ({SENTENCEPIECE_FILE}, {BPE_FILE} or {MARIAN_FILE})")


def vocabulary_fingerprint(folder: Path) -> str:
    """Identify a folder's tokenizer by content."""
    return fingerprint(*sorted(path for name in FILES if (path := folder / name).is_file()))
