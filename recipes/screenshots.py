"""Take the pictures of the documentation: the page with the built-in model, in light, in dark and on a phone.

python recipes/screenshots.py docs      needs the extras [serve] and [dev], and Chromium (tests/ensure_chromium.sh)
"""

import argparse
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import sync_playwright

PORT = 5973
TEXT = "Wir werden alles tun, was wir können."
VIEWS = {
    "light": (1180, 900, "light", ""),
    "dark": (1180, 900, "dark", "&force=0.3.0.%E2%96%81all"),
    "phone": (390, 800, "light", ""),
}


def wait_for(address: str) -> None:
    """Wait until the server answers."""
    for _ in range(200):
        try:
            urllib.request.urlopen(f"{address}/health")
            return
        except urllib.error.URLError:
            time.sleep(0.1)
    raise SystemExit("the server did not start")


def main() -> None:
    """Start the server, take the pictures, stop it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder, address = parser.parse_args().folder, f"http://127.0.0.1:{PORT}"
    server = subprocess.Popen([sys.executable, "-m", "recoversat", "serve", "--port", str(PORT)])
    try:
        wait_for(address)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
            )
            for name, (width, height, scheme, forced) in VIEWS.items():
                page = browser.new_page(
                    viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
                )
                page.goto(f"{address}/#from=de&to=en&k=8&q={quote(TEXT)}{forced}")
                page.wait_for_timeout(3000)
                for _ in range(3):  # the times shown are those of a server that is warm, and of no page being drawn
                    if forced:  # a click would begin anew, without it
                        page.reload()
                    else:
                        page.get_by_role("button", name="Translate").click()
                    page.wait_for_timeout(1500)
                page.screenshot(path=folder / f"serve-{name}.png", full_page=True)
            browser.close()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
