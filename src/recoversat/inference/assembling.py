"""From what was decoded to a translation: segments put together, and spelt out when somebody looks at them."""

from collections.abc import Sequence
from functools import partial

from recoversat.config import DecodeConfig
from recoversat.decoding.segmentwise import Decoded
from recoversat.inference.repairs.cut_loops import without_loops
from recoversat.inference.repairs.join_overlaps import overlaps
from recoversat.inference.translation import Ending, LaterSegments, Segment, Translation
from recoversat.segments import assemble
from recoversat.text.tokenizer import Tokenizer
from recoversat.vocab import DEL, EOS

BROKEN = "\ufffd"  # what bytes that are no text decode to


def translation_of(
    source: str, source_ids: Sequence[int], decoded: Decoded, tokenizer: Tokenizer, decode: DecodeConfig
) -> Translation:
    """Put the segments of a sentence together, as its model is set to: overlaps joined, loops cut."""
    repeated = [0] * len(decoded.segments)
    if decode.join_overlaps and len(decoded.segments) > 1:
        repeated = overlaps(decoded.segments, source_ids, tokenizer)
    written = assemble([segment[n:] for segment, n in zip(decoded.segments, repeated, strict=True)])
    if decode.cut_loops:
        written = without_loops(written, source_ids)
    # a model may spell a line break in bytes; a line of text it must stay
    text = tokenizer.decode(written).replace("\n", " ").replace("\r", " ")
    if BROKEN in text and BROKEN not in source:  # bytes that are no text: a script it has never learnt
        text = source
    text = source[: len(source) - len(source.lstrip())] + text.strip() + source[len(source.rstrip()) :]
    return Translation(source, text, spelt_later(decoded, tokenizer, repeated), decoded.steps)


def spelt_later(decoded: Decoded, tokenizer: Tokenizer, repeated: Sequence[int] = ()) -> LaterSegments:
    """Give segments that are made when they are looked at; `repeated` counts first tokens that are left out."""
    repeated = repeated or [0] * len(decoded.segments)
    return LaterSegments(len(decoded.segments), partial(_segment, decoded, tokenizer, repeated))


def _segment(decoded: Decoded, tokenizer: Tokenizer, repeated: Sequence[int], index: int) -> Segment:
    tokens = decoded.segments[index]
    ending: Ending = {EOS: "eos", DEL: "del"}.get(tokens[-1], "cut") if tokens else "cut"  # type: ignore[assignment]
    ids = tokens if ending == "cut" else tokens[:-1]
    alternatives = [
        list(zip(tokenizer.pieces([i for i, _ in best]), [p for _, p in best], strict=True))
        for best in (decoded.alternatives[index] if decoded.alternatives else [])
    ]
    text, pieces = tokenizer.decode(ids), tokenizer.pieces(ids)
    return Segment(text, pieces, ids, ending, decoded.log_probs[index], alternatives, repeated[index])
