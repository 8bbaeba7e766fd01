"""The page in a real browser: translating, replaying, forcing, by mouse and keyboard, on a desk and on a phone."""

import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from recoversat.serve.http.app import create_app
from recoversat.serve.service import Service
from recoversat.serve.settings import ServeSettings
from tests.unit.serve.fake_translator import fake_model, fake_service

CHROMIUM = Path("/usr/bin/chromium")
ENSURE = Path(__file__).parents[1] / "ensure_chromium.sh"
QUIET = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
EXAMPLE = "/#from=en&to=de&k=4&q=two+dogs+run+in+the+park"


class Site:
    """A server of the fake translator in a thread of this process."""

    def __init__(self) -> None:
        models = [fake_model(choices=[1, 4]), fake_model("de", "en")]
        self.translator = models[0].translator
        self.service: Service = fake_service(ServeSettings(char_limit=200, batch_window=0), models)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        config = uvicorn.Config(create_app(self.service), port=port, log_level="error", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    running = Site()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        subprocess.run([str(ENSURE)], check=True)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(QUIET))
        yield launched
        launched.close()


@pytest.fixture
def page(request: pytest.FixtureRequest, browser: Browser, site: Site) -> Iterator[Page]:
    """Open a page; after the test it must have asked nobody but its server, and complained of nothing."""
    options: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
    context = browser.new_context(**(options | getattr(request, "param", {})))
    opened = context.new_page()
    opened.set_default_timeout(10_000)
    elsewhere: list[str] = []
    complaints: list[str] = []
    opened.on("request", lambda sent: sent.url.startswith(site.address) or elsewhere.append(sent.url))
    # A refused request is part of some tests; Chromium reports it although the page handles it.
    opened.on("console", lambda m: "Failed to load resource" in m.text or complaints.append(m.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    context.close()
    assert elsewhere == []
    assert complaints == []


def segments(page: Page) -> list[str]:
    """Read what the segments show, EOS and DEL included; what is not written yet is left out."""
    return [
        " ".join(column.locator(".token:not(.later)").all_inner_texts())
        for column in page.locator("#many .segment").all()
    ]


def ready(page: Page, translation: str) -> None:
    expect(page.locator("#translation")).to_have_text(translation)
    expect(page.locator("#translation")).not_to_have_class("waiting")


def test_translating_shows_the_translation_and_how_it_was_written(page: Page, site: Site) -> None:
    page.goto(site.address)
    page.get_by_label("Text to translate").fill("two big dogs sleep")
    page.get_by_label("Text to translate").press("Control+Enter")
    ready(page, "TWO BIG DOGS SLEEP")
    assert segments(page) == ["TWO EOS", "BIG EOS", "DOGS EOS", "SLEEP EOS"]
    expect(page.locator("#many-figures")).to_contain_text(re.compile(r"^2 steps, [\d.]+ ms$"))
    expect(page.locator("#one-figures")).to_contain_text(re.compile(r"^5 steps, [\d.]+ ms$"))
    assert page.locator("#one .token").all_inner_texts() == ["TWO", "BIG", "DOGS", "SLEEP", "EOS"]
    assert page.locator("#counter").inner_text() == "step 5 of 5"


def test_what_is_typed_and_asked_before_the_page_has_started_is_translated(page: Page, site: Site) -> None:
    held: list[Route] = []
    page.route("**/models", lambda route: held.append(route))
    page.goto(site.address)
    expect(page.get_by_role("slider", name="Segments")).to_be_disabled()
    page.get_by_label("Text to translate").fill("two big dogs sleep")
    page.get_by_label("Text to translate").press("Control+Enter")
    assert page.locator("#translation").inner_text() == ""
    (models,) = held
    models.continue_()
    ready(page, "TWO BIG DOGS SLEEP")
    assert page.get_by_label("Text to translate").input_value() == "two big dogs sleep"


def test_who_is_about_to_type_when_the_page_starts_finds_no_sample(page: Page, site: Site) -> None:
    held: list[Route] = []
    page.route("**/models", lambda route: held.append(route))
    page.goto(site.address)
    page.get_by_label("Text to translate").focus()
    (models,) = held
    models.continue_()
    expect(page.get_by_role("slider", name="Segments")).to_be_enabled()
    page.keyboard.type("two big dogs sleep")
    page.keyboard.press("Control+Enter")
    ready(page, "TWO BIG DOGS SLEEP")


def test_a_page_that_could_not_start_starts_when_asked_again(page: Page, site: Site) -> None:
    page.route("**/models", lambda route: route.abort())
    page.goto(site.address)
    expect(page.get_by_role("alert")).to_be_visible()
    page.unroute("**/models")
    page.get_by_label("Text to translate").fill("two big dogs sleep")
    page.get_by_role("button", name="Translate").click()
    ready(page, "TWO BIG DOGS SLEEP")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_another_k_writes_other_segments_and_deletes_the_surplus(page: Page, site: Site) -> None:
    page.goto(site.address + EXAMPLE)
    ready(page, "TWO DOGS RUN IN THE PARK")
    assert segments(page) == ["TWO DOGS EOS", "RUN IN EOS", "THE PARK EOS", "PARK DEL"]
    deleted = page.locator("#many .segment.deleted")
    assert deleted.count() == 1
    word = deleted.locator(".token").first
    assert "line-through" in word.evaluate("node => getComputedStyle(node).textDecoration")
    expect(page.locator("#assembled .dropped")).to_have_text("PARK")
    slider = page.get_by_role("slider", name="Segments")
    slider.focus()
    slider.press("ArrowLeft")
    slider.press("ArrowLeft")
    expect(page.locator("#k")).to_have_text("2")
    expect(page.locator("#many .segment")).to_have_count(2)
    assert segments(page) == ["TWO DOGS RUN EOS", "IN THE PARK EOS"]
    assert "k=2" in page.url
    expect(page.locator("#learnt")).to_contain_text("learnt with K = 1, 4")


def test_what_two_segments_both_say_is_struck_out_in_the_end(page: Page, site: Site) -> None:
    page.goto(site.address + "/#from=en&to=de&k=4&q=two+dogs+dogs+run")
    ready(page, "TWO DOGS RUN")
    assert segments(page) == ["TWO EOS", "DOGS EOS", "DOGS EOS", "RUN EOS"]
    struck = page.locator("#many .token.overlap")
    assert struck.all_inner_texts() == ["DOGS"]
    assert "line-through" in struck.evaluate("node => getComputedStyle(node).textDecoration")
    assert page.locator("#assembled .part").all_inner_texts() == ["TWO", "DOGS", "RUN"]
    page.get_by_role("button", name="Back to the start").click()
    page.get_by_role("button", name="One step on").click()
    assert page.locator("#assembled .part").all_inner_texts() == ["TWO", "DOGS", "DOGS", "RUN"]
    assert struck.count() == 0  # nobody knows yet


def test_words_in_doubt_are_marked(page: Page, site: Site) -> None:
    page.goto(site.address + EXAMPLE)
    ready(page, "TWO DOGS RUN IN THE PARK")
    assert page.locator("#translation mark").all_inner_texts() == ["PARK"]
    expect(page.locator("#sure")).to_have_text("confidence 50 %")


def test_a_glossary_is_sent_along(page: Page, site: Site) -> None:
    page.goto(site.address + EXAMPLE)
    ready(page, "TWO DOGS RUN IN THE PARK")
    page.get_by_text("Glossary", exact=True).click()
    page.get_by_label("One term a line").fill("# mine\ndogs = Hunde\nred ball\t Ball\npark\n")
    page.get_by_role("button", name="Translate").click()
    ready(page, "TWO DOGS RUN IN THE PARK")
    sent = next(one for one in reversed(site.translator.glossaries) if one)
    assert [(term.source, term.target) for term in sent.terms] == [
        ("dogs", "Hunde"),
        ("red ball", "Ball"),
        ("park", ""),
    ]


def test_exact_shows_what_was_accepted_and_what_corrected(page: Page, site: Site) -> None:
    page.goto(site.address + EXAMPLE)
    ready(page, "TWO DOGS RUN IN THE PARK")
    asked = len(site.translator.modes)
    page.get_by_text("Exact: what K = 1 makes of a draft").click()
    expect(page.locator("#exact-figures")).to_contain_text("5 of 7 tokens accepted, 2 corrected")
    assert site.translator.modes[asked:] == ["exact"]
    assert page.locator("#draft .chip").all_inner_texts() == ["TWO", "DOGS", "RUN", "IN", "THE"]
    assert page.locator("#verified .corrected").all_inner_texts() == ["PARK", "EOS"]
    page.get_by_role("slider", name="Segments").fill("1")
    expect(page.locator("#exact")).to_be_hidden()


def quality_of(page: Page) -> Any:
    return page.get_by_role("combobox", name="Quality")


def test_the_dial_is_sent_along_and_shows_what_was_drafted_and_verified(page: Page, site: Site) -> None:
    page.goto(site.address + EXAMPLE)
    ready(page, "TWO DOGS RUN IN THE PARK")
    dial = quality_of(page)
    assert dial.locator("option").all_inner_texts() == ["as the model is set", "fast", "balanced", "best", "exact"]
    expect(dial).to_have_value("")
    expect(page.locator("#exact")).not_to_have_attribute("open", "")
    asked = len(site.translator.modes)
    dial.select_option("balanced")
    expect(page.get_by_role("heading", name="The draft: all segments at once")).to_be_visible()
    expect(page.locator("#one-figures")).to_contain_text("steps")
    assert site.translator.modes[asked:] == ["balanced", "fast", None]
    assert site.translator.wanted[asked:] == [4, 4, 1]
    expect(page.locator("#translation")).to_have_text("TWO DOGS RUN IN THE PARK")
    assert segments(page) == ["TWO DOGS EOS", "RUN IN EOS", "THE PARK EOS", "PARK DEL"]  # the draft
    expect(page.locator("#exact summary")).to_have_text("Balanced: what K = 1 makes of a draft")
    assert page.locator("#draft .chip").all_inner_texts() == ["TWO", "DOGS", "RUN", "IN", "THE"]  # open by itself
    assert page.locator("#verified .corrected").all_inner_texts() == ["PARK", "EOS"]
    expect(page.locator("#quality-says")).to_contain_text("Balanced: drafted in K segments")
    expect(dial).to_have_accessible_description(re.compile("^Balanced: drafted"))
    assert "quality=balanced" in page.url
    page.locator("#exact summary").click()
    page.get_by_role("button", name="Translate").click()
    expect(page.locator("#translation:not(.waiting)")).to_have_count(1)
    expect(page.locator("#exact")).not_to_have_attribute("open", "")  # as it was left
    asked = len(site.translator.modes)
    dial.select_option("fast")
    expect(page.get_by_role("heading", name="All segments at once", exact=True)).to_be_visible()
    expect(page.locator("#translation:not(.waiting)")).to_have_count(1)
    assert site.translator.modes[asked:] == ["fast", None]
    expect(page.locator("#exact summary")).to_have_text("Exact: what K = 1 makes of a draft")


def test_a_link_brings_the_dial_back(page: Page, site: Site) -> None:
    page.goto(site.address + EXAMPLE + "&quality=exact")
    ready(page, "TWO DOGS RUN IN THE PARK")
    expect(quality_of(page)).to_have_value("exact")
    expect(page.locator("#exact-figures")).to_contain_text("5 of 7 tokens accepted, 2 corrected")
    page.goto("about:blank")
    page.goto(site.address + EXAMPLE + "&quality=perfect")
    ready(page, "TWO DOGS RUN IN THE PARK")
    expect(quality_of(page)).to_have_value("")
    assert "quality" not in page.url.partition("#")[2]


def test_forced_words_go_without_the_dial_until_they_are_released(page: Page, site: Site) -> None:
    page.goto(site.address + EXAMPLE + "&quality=best")
    ready(page, "TWO DOGS RUN IN THE PARK")
    asked = len(site.translator.modes)
    page.locator("#many .token", has_text="DOGS").click()
    page.get_by_role("dialog").get_by_role("button", name="BIG").click()
    ready(page, "TWO BIG DOGS RUN IN THE PARK")
    assert set(site.translator.modes[asked:]) == {None}
    expect(quality_of(page)).to_be_disabled()
    expect(quality_of(page)).to_have_value("best")
    expect(page.locator("#quality-says")).to_contain_text("release them to choose a quality")
    assert "quality=best" in page.url
    page.goto("about:blank")
    page.go_back()  # the link has both
    ready(page, "TWO BIG DOGS RUN IN THE PARK")
    expect(quality_of(page)).to_be_disabled()
    asked = len(site.translator.modes)
    page.get_by_role("button", name="Release segment 1, step 2").click()
    ready(page, "TWO DOGS RUN IN THE PARK")
    expect(quality_of(page)).to_be_enabled()
    assert site.translator.modes[asked] == "best"


def test_the_dial_is_turned_by_keyboard_and_offers_what_the_model_can(page: Page, site: Site) -> None:
    page.goto(site.address + EXAMPLE)
    ready(page, "TWO DOGS RUN IN THE PARK")
    page.get_by_role("slider", name="Segments").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "quality"
    page.keyboard.press("e")  # as one chooses in any list
    expect(quality_of(page)).to_have_value("exact")
    expect(page.locator("#exact-figures")).to_contain_text("5 of 7 tokens accepted")
    page.get_by_label("Direction").select_option("1")  # this model has not learnt K = 1
    expect(page.locator("#quality-says")).to_contain_text("has not learnt K = 1")
    expect(quality_of(page)).to_have_value("")
    disabled = quality_of(page).locator("option").evaluate_all("all => all.filter(o => o.disabled).map(o => o.value)")
    assert disabled == ["balanced", "best", "exact"]
    expect(page.locator("#exact")).to_be_hidden()
    page.get_by_label("Direction").select_option("0")
    expect(page.locator("#quality-says")).to_have_text("")


def test_one_segment_has_nothing_to_verify(page: Page, site: Site) -> None:
    page.goto(site.address + EXAMPLE.replace("k=4", "k=1") + "&quality=best")
    ready(page, "TWO DOGS RUN IN THE PARK")
    expect(page.locator("#exact")).to_be_hidden()
    expect(page.locator("#one")).to_contain_text("With K = 1 both are the same")
    assert segments(page) == ["TWO DOGS RUN IN THE PARK EOS"]


def test_probability_is_a_shade(page: Page, site: Site) -> None:
    page.goto(site.address + EXAMPLE)
    ready(page, "TWO DOGS RUN IN THE PARK")
    sure, unsure = (page.locator("#many .token", has_text=re.compile(f"^{word}$")).first for word in ("TWO", "DOGS"))

    def alpha(token: Any) -> float:
        return float(token.evaluate("n => getComputedStyle(n).backgroundColor.match(/[\\d.]+(?=\\))/)[0]"))

    assert alpha(sure) > 2 * alpha(unsure) > 0


def test_forcing_a_token_makes_the_others_adapt(page: Page, site: Site) -> None:
    page.goto(site.address + EXAMPLE)
    ready(page, "TWO DOGS RUN IN THE PARK")
    page.locator("#many .token", has_text="DOGS").click()
    choices = page.get_by_role("dialog", name="Instead of “DOGS”")
    expect(choices.get_by_role("button")).to_have_count(4)
    choices.get_by_role("button", name="BIG").click()
    ready(page, "TWO BIG DOGS RUN IN THE PARK")
    assert segments(page) == ["TWO BIG EOS", "DOGS RUN EOS", "IN THE EOS", "PARK EOS"]
    assert page.locator("#many .forced-token").all_inner_texts() == ["BIG"]
    assert page.locator("#many .changed").first.inner_text() == "BIG"
    assert page.locator("#many .changed").count() == 6
    link = page.url
    page.get_by_role("button", name="Release segment 1, step 2").click()
    ready(page, "TWO DOGS RUN IN THE PARK")
    expect(page.locator("#forced")).to_be_hidden()
    page.goto("about:blank")
    page.goto(link)  # the link brings the forced example back
    ready(page, "TWO BIG DOGS RUN IN THE PARK")
    assert page.get_by_label("Text to translate").input_value() == "two dogs run in the park"


@pytest.mark.parametrize("page", [{"reduced_motion": "no-preference"}], indirect=True)
def test_the_replay_plays_pauses_and_steps(page: Page, site: Site) -> None:
    page.goto(site.address + EXAMPLE)
    page.get_by_label("Speed").select_option("4")
    expect(page.locator("#counter")).to_have_text("step 7 of 7")  # it plays by itself, to the end
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    page.get_by_role("button", name="Back to the start").click()
    assert segments(page) == ["", "", "", ""]
    page.get_by_role("button", name="One step on").click()
    assert segments(page) == ["TWO", "RUN", "THE", "PARK"]
    assert page.locator("#many .deleted").count() == 0
    expect(page.locator("#said")).to_contain_text("Step 1. segment 1: TWO, segment 2: RUN")
    page.get_by_role("button", name="One step on").click()
    assert segments(page)[3] == "PARK DEL"
    assert page.locator("#many .deleted").count() == 1
    page.get_by_label("Speed").select_option("0.5")
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_everything_can_be_done_by_keyboard(page: Page, site: Site) -> None:
    page.goto(site.address + EXAMPLE)
    ready(page, "TWO DOGS RUN IN THE PARK")
    page.locator("#many .token[tabindex='0']").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_role("dialog", name="Instead of “PARK”")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert page.evaluate("document.activeElement.innerText") == "PARK"
    for key in ("Enter", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#many .forced-token")).to_have_count(1)


def test_an_error_is_told_kindly_and_can_be_mended(page: Page, site: Site) -> None:
    page.goto(site.address + EXAMPLE)
    ready(page, "TWO DOGS RUN IN THE PARK")
    text, alert = page.get_by_label("Text to translate"), page.get_by_role("alert")
    text.fill("dogs " * 41)
    page.get_by_role("button", name="Translate").click()
    expect(alert).to_contain_text("This text is too long: 205 characters, and 200 are allowed.")
    text.fill("poison")
    page.get_by_role("button", name="Translate").click()
    expect(alert).to_contain_text("Something went wrong on the server. Its log says what.")
    text.fill(" ")
    page.get_by_role("button", name="Translate").click()
    expect(alert).to_contain_text("There is nothing to translate yet")
    text.fill("cats")
    page.route("**/translate", lambda route: route.abort())
    page.get_by_role("button", name="Translate").click()
    expect(alert).to_contain_text("The server cannot be reached")
    page.unroute("**/translate")
    page.get_by_role("button", name="Try again").click()
    ready(page, "CATS")
    expect(alert).to_be_hidden()


def test_sentences_are_shown_one_at_a_time_and_without_a_teacher_it_says_so(page: Page, site: Site) -> None:
    page.goto(site.address + "/#from=de&to=en&k=2&q=two+dogs.+Three+cats+run.")
    ready(page, "TWO DOGS. THREE CATS RUN.")
    assert segments(page) == ["TWO EOS", "DOGS. EOS"]
    page.get_by_role("button", name="Sentence 2: Three cats run.").click()
    assert segments(page) == ["THREE CATS EOS", "RUN. EOS"]
    expect(page.locator("#one")).to_contain_text("serve its teacher too: --model de-en=TEACHER")


PHONES = [{"viewport": {"width": width, "height": 740}, "has_touch": True} for width in (360, 320)]


@pytest.mark.parametrize("page", PHONES, indirect=True)
def test_a_phone_scrolls_down_and_never_sideways(page: Page, site: Site) -> None:
    page.goto(site.address + EXAMPLE.replace("k=4", "k=10") + "&quality=balanced")
    ready(page, "TWO DOGS RUN IN THE PARK")
    expect(page.locator("#many .token").first).to_be_visible()
    dial = quality_of(page).bounding_box()
    assert dial is not None
    assert dial["height"] >= 38
    width = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width[0] == width[1]
    page.locator("#many .token").first.tap()
    box = page.get_by_role("dialog").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width[1]
    target = page.locator("#many .token").first.bounding_box()
    assert target is not None
    assert target["height"] >= 38


@pytest.mark.parametrize("page", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True)
def test_text_stands_out_in_light_and_dark(page: Page, site: Site) -> None:
    page.goto(site.address + EXAMPLE + "&force=0.0.1.BIG")
    ready(page, "TWO BIG DOGS RUN IN THE PARK")
    ratios = page.evaluate(CONTRAST)
    assert len(ratios) > 15
    assert min(ratio for _, ratio in ratios) >= 4.5, sorted(ratios, key=lambda pair: pair[1])[:3]
    assert "Quality" in {text.split()[0] for text, _ in ratios}
    page.goto(site.address + EXAMPLE + "&quality=exact")
    ready(page, "TWO DOGS RUN IN THE PARK")
    expect(page.locator("#verified .corrected")).to_have_count(2)
    ratios = page.evaluate(CONTRAST)
    assert min(ratio for _, ratio in ratios) >= 4.5, sorted(ratios, key=lambda pair: pair[1])[:3]


def test_the_api_is_documented_on_a_page_of_our_own(page: Page, site: Site) -> None:
    page.goto(site.address + "/docs")
    card = page.locator(".operation", has=page.get_by_role("heading", name="/translate"))
    expect(card.get_by_role("rowheader", name="alternatives")).to_be_visible()
    card.get_by_role("button", name="Try it").click()
    expect(card.locator("pre").nth(1)).to_contain_text('"translatedText": "TWO DOGS RUN."')


# Ratio of every visible text to what lies behind it, translucent layers blended.
CONTRAST = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const light = (c) => [0, 1, 2].map((i) => c[i] / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    if (!node) return [255, 255, 255];
    const [r, g, b, a = 1] = parse(getComputedStyle(node).backgroundColor);
    if (a === 1) return [r, g, b];
    const under = behind(node.parentElement);
    return [r, g, b].map((v, i) => v * a + under[i] * (1 - a));
  };
  return [...document.querySelectorAll("h1, h2, h3, p, label, button, output, textarea, li, sup, .counter, .token b")]
    .filter((node) => node.offsetParent && !node.disabled && node.textContent.trim())
    .map((node) => {
      const [one, other] = [light(parse(getComputedStyle(node).color)), light(behind(node))].sort((a, b) => b - a);
      return [node.textContent.trim().slice(0, 30), (one + 0.05) / (other + 0.05)];
    });
}"""


def test_a_file_that_is_chosen_before_the_page_has_started_waits(page: Page, site: Site) -> None:
    held: list[Route] = []
    page.route("**/models", lambda route: held.append(route))
    with page.expect_request("**/models"):
        page.goto(site.address)
    page.set_input_files("#file", {"name": "report.md", "mimeType": "text/plain", "buffer": b"# two **big** dogs\n"})
    held[0].continue_()
    expect(page.get_by_role("link", name="Fetch the translated file")).to_be_visible()


def test_a_file_is_translated_and_fetched(page: Page, site: Site) -> None:
    page.goto(site.address)
    page.set_input_files("#file", {"name": "report.md", "mimeType": "text/plain", "buffer": b"# two **big** dogs\n"})
    link = page.get_by_role("link", name="Fetch the translated file")
    expect(link).to_be_visible()
    with page.expect_download() as download:
        link.click()
    assert download.value.suggested_filename == "report.de.md"
    assert Path(download.value.path()).read_text() == "# TWO **BIG** DOGS\n"
    page.set_input_files("#file", {"name": "report.pdf", "mimeType": "text/plain", "buffer": b"two"})
    expect(page.get_by_role("alert")).to_contain_text("file format not supported")
    expect(link).to_be_hidden()
