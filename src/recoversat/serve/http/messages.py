"""What travels: requests and answers as LibreTranslate has them, and the fields we add."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from recoversat.config import Quality
from recoversat.errors import UserError
from recoversat.inference.request import read_segments

Text = Annotated[str, Field(min_length=1)]
Term = Annotated[str, Field(min_length=1, max_length=200)]
K = Annotated[int, Field(ge=1, le=1000)]


def _whole_number(value: Any) -> Any:
    """Take 2.0 and "2" for 2: to JSON the first is a whole number, and LibreTranslate's clients send the second."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    is_number = isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit()
    return int(value[:10]) if is_number else value


def _at_least_none(value: Any) -> Any:
    """Take a negative number of alternatives for none, as LibreTranslate does."""
    value = _whole_number(value)
    return 0 if isinstance(value, int) and value < 0 else value


def _segments(value: Any) -> Any:
    """Read K as the command line does."""
    try:
        return read_segments(str(_whole_number(value)))
    except UserError as error:
        raise PydanticCustomError("segments", "{said}", {"said": str(error)}) from None


Whole = BeforeValidator(_whole_number)


class ForcedField(BaseModel):
    """A token that must stand somewhere; all places are counted from 0."""

    model_config = ConfigDict(strict=True)

    segment: Annotated[int, Field(ge=0, le=1000), Whole]
    position: Annotated[int, Field(ge=0, le=10_000), Whole]
    token: str = Field(min_length=1, max_length=200, description="a piece as the trace shows it")
    sentence: Annotated[int, Field(ge=0, le=10_000), Whole] = 0


class TextRequest(BaseModel):
    """One text, or a list of them."""

    model_config = ConfigDict(strict=True)

    # The first text that is none says it for all: a complaint for each would take longer than to translate some.
    q: Text | Annotated[list[str], Field(min_length=1, fail_fast=True)] = Field(description="text, or list of texts")

    @property
    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q

    @property
    def cost(self) -> int:
        """How many requests it counts as."""
        return len(self.texts)


class TranslateRequest(TextRequest):
    """What /translate understands; all fields from `segments` on are ours."""

    source: Text = Field(description='language code, or "auto"; case and region are forgiven')
    target: Text = Field(description="language code; case and region are forgiven")
    format: Literal["text", "html"] | None = Field(None, description="text unless told")
    alternatives: Annotated[Annotated[int, Field(le=10)] | None, BeforeValidator(_at_least_none)] = Field(
        None, description="other translations wanted; none below 1"
    )
    api_key: str | None = None
    segments: Annotated[K | Literal["auto"] | None, BeforeValidator(_segments)] = Field(
        None,
        description='K, or "auto": by length where the model has learnt several; as the model is set by default',
    )
    details: bool | None = Field(None, description="tell K, steps, score and milliseconds too")
    trace: Annotated[Annotated[int, Field(ge=0, le=20)] | None, Whole] = Field(
        None, description="show all segments, with so many of the likeliest tokens at each position"
    )
    forced: Annotated[list[ForcedField], Field(max_length=200)] | None = Field(
        None, description="tokens that must stand somewhere"
    )
    quality: Quality | None = Field(
        None, description="K by length; verified by K = 1, with more and with less tolerance; the words of K = 1"
    )
    exact: bool | None = Field(None, description='the same as quality "exact"')
    confidence: bool | None = Field(None, description="tell how sure the model is of the translation, 0 to 1")
    glossary: Annotated[dict[Term, Annotated[str, Field(max_length=200)] | None], Field(max_length=200)] | None = Field(
        None, description="terms and their translations; empty or null: the term stays as it is"
    )

    @property
    def mode(self) -> str | None:
        """The quality asked for, in one word; None as the model is set."""
        return "exact" if self.exact else self.quality

    @property
    def cost(self) -> int:
        """How many requests it counts as: each text, and each alternative of it."""
        return len(self.texts) * (1 + (self.alternatives or 0))


class DetectRequest(TextRequest):
    """What /detect understands."""

    api_key: str | None = None


class SuggestRequest(BaseModel):
    """What /suggest understands: `s` is a better translation of `q`."""

    model_config = ConfigDict(strict=True)

    q: Text
    s: Text
    source: Text = Field(max_length=40)
    target: Text = Field(max_length=40)
    api_key: str | None = None
    cost: ClassVar[int] = 1


class SuggestResponse(BaseModel):
    """What /suggest answers."""

    success: bool


class Detection(BaseModel):
    """A language, and how sure we are, in per cent."""

    confidence: float = Field(ge=0, le=100)
    language: str


class Language(BaseModel):
    """A language on offer."""

    code: str
    name: str
    targets: list[str]


class TokenChoice(BaseModel):
    """A token that might have been written."""

    piece: str
    probability: float


class TracedToken(TokenChoice):
    """A token as it was written, with the likeliest ones at its place."""

    forced: bool
    alternatives: list[TokenChoice]


class TracedSegment(BaseModel):
    """A segment; `ending` says whether it was completed, deleted or cut off."""

    text: str
    ending: Literal["eos", "del", "cut"]
    overlap: int = Field(description="first tokens that the translation leaves out: the segment before says them too")
    tokens: list[TracedToken] = Field(description="EOS or DEL is the last one")


class TracedDraft(BaseModel):
    """What was drafted and verified, where quality is "exact"."""

    pieces: list[str]
    accepted: list[bool] = Field(description="of each token: the draft had it too, or it was corrected")


class TracedSentence(BaseModel):
    """A sentence as the model saw it, and all it wrote."""

    source: str
    text: str
    steps: int
    repairs: list[str] = Field(description="what has changed the translation since it was decoded")
    confidence: float | None = Field(description="where it was asked for")
    doubtful: list[tuple[int, int]] = Field(description="places in `text` of words that K = 1 finds unlikely")
    draft: TracedDraft | None = Field(description="of a sentence that was drafted and verified; ask with trace 0")
    segments: list[TracedSegment]


class Details(BaseModel):
    """How a text was translated."""

    segments: int = Field(description="K; of several sentences the largest")
    steps: int
    score: float | None = Field(description="mean log-probability of a token")
    milliseconds: float
    split: int = Field(description="sentences cut in parts because they were too long for the model")


class TranslateResponse(BaseModel):
    """A translation, or a list of them; what was not asked for is left out."""

    translatedText: str | list[str]  # noqa: N815 - LibreTranslate's name
    detectedLanguage: Detection | list[Detection] | None = None  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None
    details: Details | list[Details] | None = None
    confidence: float | list[float | None] | None = None
    trace: list[TracedSentence] | list[list[TracedSentence]] | None = None


class TranslateFileResponse(BaseModel):
    """Where a translated file can be fetched, for ten minutes."""

    translatedFileUrl: str  # noqa: N815


class ServedPair(BaseModel):
    """A direction of translation: K by default, the largest K, the values trained with, and K = 1."""

    source: str
    target: str
    segments: int
    max_segments: int
    choices: list[int]
    autoregressive: bool = Field(description="segments=1 gives a proper autoregressive translation")


class ErrorMessage(BaseModel):
    """Why a request was refused."""

    error: str
