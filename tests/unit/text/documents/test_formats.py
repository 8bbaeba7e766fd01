"""The list of formats: each gives a document back as it was, but for what is translated."""

import pytest

from recoversat.errors import UserError
from recoversat.text.documents import FORMATS, parse

TEXT = "<p>One &amp; <b>two</b>.</p>\r\n<pre>x</pre>\tThree &lt; four\n"


@pytest.mark.parametrize("format", FORMATS)
def test_a_document_is_made_of_its_blocks_and_the_rest(format: str) -> None:
    for text in (TEXT, "", "\n"):
        document = parse(text, format)
        own = [block.source(0, len(block.text), slice(0, len(block.tags))) for block in document.blocks]
        assert document.put_back(own) == text
    blanks = ["" for _ in parse(TEXT, format).blocks]
    assert parse(TEXT, format).put_back(blanks) == {"text": "", "html": "<p></p><pre>x</pre>"}[format]


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UserError, match="format 'docx' is not known; there are: text, html"):
        parse("", "docx")
