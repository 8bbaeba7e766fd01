"""The list of formats: each gives a document back as it was, but for what is translated."""

import pytest

from recoversat.errors import UserError
from recoversat.text.documents import FORMATS, parse

PAGE = "<p>One &amp; <b>two</b>.</p>\r\n<pre>x</pre>\tThree &lt; four\n"
TIMES = "7\r\n00:00:01,000 --> 00:00:04,000\r\n"
# of each format a document, and what is left of it when nothing is said
SAMPLES = {
    "text": (PAGE, ""),
    "html": (PAGE, "<p></p><pre>x</pre>"),
    "srt": (f"{TIMES}- One <b>two</b>\r\n- Three\r\n\r\n", f"{TIMES}- \r\n- \r\n\r\n"),
}


@pytest.mark.parametrize("format", FORMATS)
def test_a_document_is_made_of_its_blocks_and_the_rest(format: str) -> None:
    sample, empty = SAMPLES[format]
    for text in (sample, "", "\n"):
        document = parse(text, format)
        own = [block.source(0, len(block.text), slice(0, len(block.tags))) for block in document.blocks]
        assert document.put_back(own) == text
    assert parse(sample, format).put_back(["" for _ in parse(sample, format).blocks]) == empty


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UserError, match="format 'docx' is not known; there are: text, html"):
        parse("", "docx")
