"""Strings that have broken text handling somewhere: for the growth test, the fuzz campaign and the soak."""

# (beginning, what is repeated, end): a pattern that goes back and tries again takes quadratic time on one of these.
REPEATED = [
    ("a %", "0", "!"), ("%", "-", ""), ("%(", "a", ""), ("%(", "a.", ")"), ("", "%1$", ""), ("", "%0", ""),
    ("%0.", "0", ""), ("<", 'a"', ""), ("<p ", "a", ">"), ("<p ", "a ", ">"), ("<p ", "a=", ">"),
    ("<p ", 'a="', ">"), ("<p a=", "'", ">"), ("<", "a=", ""), ("", "<a", ""), ("", "<a ", ""), ("", "<a <", ""),
    ("", "</", ""), ("", "<a b='", ""), ("", '<a ="', "'>"), ("", "<!--", ""), ("", "<!-- --", ""),
    ("", "<![CDATA[", ""), ("", "<code>", ""), ("", "<script>", ""), ("", "<p>", ""), ("", "<b>a", ""),
    ("", "<i></i>", ""), ("", "<b>a</b> ", ""), ("", "a<wbr>", ""), ("", "a", "!<wbr>"), ("", "a-", "!<wbr>"),
    ("", "&a", ""), ("&", "a", ""), ("&#", "1", ";"), ("&#x", "f", ";"), ("", "&#", ""), ("", "&amp;", ""),
    ("", "{", ""), ("", "{{", "}}"), ("", "{%", ""), ("{a,plural,", "{", ""), ("", "{a,plural,", ""),
    ("{a,plural,", "x{y}", ""), ("http://", "(", ""), ("http://", ".", ""), ("", "http://{", ""),
    ("", "http://a(", ""), ("", "www.", ""), ("", "www", "."), ("x@", "a-", ""), ("x@", "a.", ""), ("", "a@", ""),
    ("", "a.", "@"), ("mailto:", "a", ""), ("", "mailto:", ""), ("e", "\u0301", ""), ("", "e\u0301", ""),
    ("", "\u200d", ""), ("🎉", "\u200d🎉", ""), ("", "🇩", ""), ("", "1\ufe0f\u20e3", ""), ("", "- ", ""),
    ("", "-", "a"), ("", "# ", "a"), ("", "\n", ""), ("", " ", "a"), ("", "\u2028", "a"), ("", "\x00", "a"),
    ("", "1,", ""), ("", "1-", ""), ("", "COVID-", "19"), ("", "der 1. ", "Stock"), ("", "A. ", ""),
    ("", "Dr. ", ""), ("", "中。", ""), ("", "a", ""), ("", "A", ""), ("", "a ", ""), ("", "(", ")"),
    ("", "“", "”"), ("", "1 ", "p.m."), ("", "1.1 ", "Uhr"), ("", "£1,", ""), ("", "A-1", "-"), ("", "A1.", "x"),
    ("", "a   ", ""), ("", "a\t", ""), ("", "a  ", "b"), ("", "1/1/", "1"), ("", "lang=en ", ""),
    ("", "\ue000", "a"), ("", "\U000f0000", "a"),
]  # fmt: skip

# What real text has in it, to be mixed: most of it must come through a translation unchanged.
SNIPPETS = [
    "Hello", "the two dogs", "Zwei Hunde", "don't", "e\u0301te\u0301", "ﬁne", "ẞ", "İ", "中文", "日本語。", "שלום",
    "مرحبا", ".", "!", "?", "…", ", ", ": ", "; ", " - ", " – ", "(", ")", "„", "“", "'", '"', " ", "  ", "\u00a0",
    "\u200b", "\u2060", "\xad", "\n", "\r\n", "\t", "\n\n", "\u2028", "\x0b", "\x1c", "\x85", "\x00", "\x07",
    "\x1b[31m", "\ufeff", "\ufffd", "\ufffe", "\ue000", "\U000f0001", "5", "1,500.75", "3.10.", "007", "10^6", "½",
    "²", "٣", "2024-11-15", "9:30", "COVID-19", "100%ige", "100 %", "{name}", "{{ user }}", "{% if x %}", "${HOME}",
    "#{x}", "%s", "%1$s", "%(name)s", "%-5.2f", "%%", "%", "{", "}", "{}", "{0}",
    "{n, plural, one {# dog} other {# dogs}}", "https://x.org/a?b=c#d", "www.example.com", "http://", "a@b.org",
    "mailto:x@y.de", "@you", "#tag", "🎉", "👩‍👩‍👧", "🇩🇪", "1️⃣", "👍🏽", "\u200d", "\ufe0f", "\u20e3", "©", "™",
    "<b>", "</b>", "<i>", "</i>", "<br>", "<br/>", "<p>", "</p>", '<a href="x">', "</a>", "<img src=x>", "<wbr>",
    "<!-- c -->", "<a<>", "<", ">", "<>", "</>", "<code>x</code>", "<pre>", "</pre>",
    "<script>if (a<b) {}</script>", '<span class="notranslate">Bob</span>', '<i class="icon"></i>', "<p ",
    "<![CDATA[x]]>", "<?x?>", "<!doctype html>", "&amp;", "&lt;", "&nbsp;", "&#65;", "&#x41;", "&", "&nosuch;",
    "&#0;",
]  # fmt: skip


def stretched(beginning: str, unit: str, end: str, length: int) -> str:
    """Repeat the unit until the whole is about so many characters long."""
    return beginning + unit * max(1, (length - len(beginning) - len(end)) // len(unit)) + end
