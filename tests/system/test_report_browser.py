"""The HTML report in a real browser: everything drawn, nothing fetched, readable in light and in dark."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from recoversat.measuring.quality.outputs import SegmentStat, SystemOutput, TestSet
from recoversat.measuring.quality.paper import DYNAMIC_TERMINATION, ablation_table, figures_of
from recoversat.measuring.quality.plots import quality_plots
from recoversat.measuring.quality.report import write_report
from recoversat.measuring.quality.results import EvaluationPlan, evaluate

CHROMIUM = Path("/usr/bin/chromium")
ENSURE = Path(__file__).parents[1] / "ensure_chromium.sh"
QUIET = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
QUIETER = ("--disable-component-update", "--disable-sync")
SENTENCE = "people meet every day on the old bridge near the small house that stands on a hill"


def system(name: str, toy: TestSet, k: int, wrong: int) -> SystemOutput:
    """Make a system that gets the first `wrong` words of every sentence wrong."""
    lines = [" ".join(["house"] * wrong + line.split()[wrong:]) for line in toy.references]
    tokens = [[5 + len(word) for word in line.split()] for line in lines]
    segments = [[SegmentStat(len(ids) // k + i % 2, "del" if i == 3 else "eos") for i in range(k)] for ids in tokens]
    steps = [max(part.length for part in parts) + 1 for parts in segments]
    scores = [-wrong / len(ids) for ids in tokens]
    settings = {"version": "0.1.0", "K": k, "data": "0badcafe", "engine": "torch", "precision": "fp32", "batch": 1}
    return SystemOutput(name, toy.name, lines, tokens, steps, segments, scores, 120 / k, settings=settings)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = [" ".join((SENTENCE.split() * 4)[: 4 + i]) + "." for i in range(50)]
    toy = TestSet("toy & <b>", lines, lines, [[5 + len(word) for word in line.split()] for line in lines])
    outputs = [
        system("AT", toy, 1, 0),
        system("RecoverSAT K=2", toy, 2, 1),
        system("RecoverSAT K=10", toy, 10, 2),
    ]
    results = evaluate(outputs, [toy], EvaluationPlan(at_system="AT", baseline="AT", n_samples=20))
    plots = list(quality_plots(results, [toy]))
    table = ablation_table(DYNAMIC_TERMINATION, {"1->0": figures_of(results[2])})
    folder = tmp_path_factory.mktemp("report")
    return write_report(folder, results, plots=plots, tables=[table], title="Toy report")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        subprocess.run([str(ENSURE)], check=True)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=[*QUIET, *QUIETER])
        yield launched
        launched.close()


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, browser: Browser, report: Path) -> Iterator[Page]:
    """Open the report; after the test, the browser must have asked for nothing and complained of nothing."""
    opened = browser.new_page(color_scheme=request.param, viewport={"width": 1280, "height": 900})
    requests: list[str] = []
    complaints: list[str] = []
    opened.on("request", lambda sent: requests.append(sent.url))
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.goto(report.as_uri(), wait_until="networkidle")
    yield opened
    opened.close()
    assert [url for url in requests if not url.startswith("data:")] == [report.as_uri()]
    assert complaints == []


def test_every_plot_is_drawn(page: Page) -> None:
    plots = page.locator("figure svg")
    assert plots.count() == 4
    for plot in plots.all():
        box = plot.bounding_box()
        assert box is not None
        assert box["width"] > 300
        assert box["height"] > 150
        assert plot.get_attribute("aria-label")
        label = plot.locator("text").first.bounding_box()
        assert label is not None
        assert label["height"] > 5
        drawn = plot.evaluate("svg => [...svg.querySelectorAll('path')].some(p => p.getBBox().width > 50)")
        assert drawn


def test_tables_are_read_as_tables(page: Page) -> None:
    table = page.get_by_role("table", name="Results")
    assert table.get_by_role("row").count() == 4
    assert table.get_by_role("columnheader", name="BLEU", exact=True).count() == 1
    assert table.get_by_role("rowheader", name="RecoverSAT K=10").count() == 1
    assert table.get_by_role("rowheader", name="toy & <b>").count() == 3
    assert page.get_by_role("table").count() == 4
    assert page.title() == "Toy report"


def test_text_stands_out_from_its_background(page: Page) -> None:
    """WCAG AA asks for a contrast of 4.5."""
    background = colour(page, "body", "background-color")
    for selector in ("h1", ".note", "tbody td", "dd", "figcaption"):
        assert contrast(colour(page, selector, "color"), background) >= 4.5, selector
    ink = page.locator("figure svg text").first.evaluate("node => getComputedStyle(node).fill")
    assert contrast(rgb(ink), background) >= 4.5


def test_a_narrow_screen_scrolls_the_table_and_not_the_page(page: Page) -> None:
    page.set_viewport_size({"width": 380, "height": 800})
    width = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width[0] == width[1]
    scroll = page.locator(".scroll").first.evaluate("node => [node.scrollWidth, node.clientWidth]")
    assert scroll[0] > scroll[1]


def test_the_page_itself_forbids_requests(browser: Browser, report: Path, tmp_path: Path) -> None:
    """Smuggle an image in: the check above must be able to fail, and the policy must stop the request."""
    smuggled = tmp_path / "smuggled.html"
    text = report.read_text(encoding="utf-8")
    smuggled.write_text(text.replace("<main>", '<main><img src="http://127.0.0.1:9/x.png">'), encoding="utf-8")
    opened = browser.new_page()
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.goto(smuggled.as_uri(), wait_until="networkidle")
    opened.close()
    assert any("Content Security Policy" in text for text in complaints), complaints


def colour(page: Page, selector: str, name: str) -> tuple[float, ...]:
    return rgb(page.locator(selector).first.evaluate(f"node => getComputedStyle(node)['{name}']"))


def rgb(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in re.findall(r"[\d.]+", text)[:3])


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def luminance(channels: tuple[float, ...]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in channels)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
