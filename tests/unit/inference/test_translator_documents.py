"""Whole texts through a translator: what is known of its model decides where sentences are cut."""


def test_documents_are_translated_sentence_by_sentence(scripted) -> None:
    translator = scripted({"a b": ["the EOS", "house EOS"], "c": ["in EOS", "EOS"]})
    text, page = translator.translate_documents(["a b\n\nc\n", "c"]), "<p>a b</p><pre>a</pre>"
    assert [one.text for one in text] == ["the house\n\nin\n", "in"]
    assert translator.translate_documents([page], format="html")[0].text == "<p>the house</p><pre>a</pre>"


def test_a_caller_may_translate_the_sentences_of_a_document(scripted) -> None:
    translator = scripted({"a b": ["the EOS", "house EOS"]})
    short = translator.config.data.model_copy(update={"max_tokens": 2})
    translator.config = translator.config.model_copy(update={"data": short})
    given: list[list[str]] = []

    def shout(sentences: list[str]) -> list[str]:
        given.append(sentences)
        return [sentence.upper() for sentence in sentences]

    (document,) = translator.translate_documents(["a b c\n"], translate=shout)
    assert (document.text, document.split, given) == ("A B C\n", ("a b c",), [["a b", "c"]])
    assert translator.engine.batches == []  # nothing was decoded
