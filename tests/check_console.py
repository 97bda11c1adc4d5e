#!/usr/bin/env python3
"""Opens the controller's console in headless Chromium and checks what only a browser can tell.

    tests/check_console.py target/debug/pointsman [--out DIR]    # DIR: keeps screenshots there

A switch without interfaces, and a controller for a rack of 256 servers with names that try to be markup. Every page is checked as
tests/check_pages.py does, axe-core included; the rack's page must also be small, be painted soon, be live, and work with the keyboard."""

import secrets
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from check_pages import is_dark, launch, look
from playwright.sync_api import sync_playwright

TOKEN = secrets.token_hex(16)
SERVERS = 256
LARGEST_BYTES = 50_000
# A machine with nothing else to do needs a tenth of this; the best of so many attempts counts.
PAINT_MS = 3_000
ATTEMPTS = 5
PATIENCE_S = 60
SIZES = [(375, 800), (1200, 900)]

RACK = """
[switch]
p4runtime = "{switch}"
mac = "02:50:4d:00:00:01"
gateways = ["10.0.0.1", "10.1.0.1"]
reports = "unauthenticated"

[api]
listen = "127.0.0.1:0"
tokens = "tokens"

[[route]]
prefix = "10.0.0.0/24"
port = 1
mac = "02:00:00:00:00:02"

[[service]]
name = "inference"
vip = "10.0.0.100"
protocol = "tcp"
port = 80
policy = "p4mite"
"""


def rack(switch):
    text = RACK.format(switch=switch)
    for server in range(SERVERS):
        text += f'\n[[server]]\nname = "s{server}"\n'
        for slot, kind in enumerate(["cpu", "smartnic"]):
            text += f'[[server.device]]\nname = "{kind}"\nkind = "{kind}"\nport = 2\nmac = "02:00:00:00:01:{slot:02x}"\n'
            text += f'address = "10.{slot + 1}.{server}.11"\n'
    return text


class Process:
    """A program, with a line of its log."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(arguments, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)

    def wait_for(self, text):
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if text in line:
                return line.split(text, 1)[1].strip()
        sys.exit("".join(lines) + f"it ended without a line with: {text}")

    def drain(self):
        """Reads the rest, so that the program never waits."""
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def end(self):
        self.process.terminate()
        self.process.wait()


def ready(url):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(url + "/readyz", timeout=5).read()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    sys.exit("the controller is not ready")


def sign_in(page, url):
    page.goto(url + "/console/login")
    page.get_by_label("API token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_url(url + "/console")


def pages(page, url):
    """Opens all pages, one after the other; their names."""
    page.goto(url + "/console/login")
    yield "login"
    sign_in(page, url)
    page.get_by_text("Switch in sync.").wait_for()
    yield "rack"
    page.goto(url + "/console?page=1&show=trouble")
    yield "trouble"
    page.goto(url + "/console/hour")
    yield "hour"
    page.goto(url + "/console/policy?service=inference")
    page.locator("details").evaluate("d => { d.open = true; }")
    yield "policy"
    page.get_by_label("Policy", exact=True).select_option("wrr")
    page.get_by_label("Reason, for the history").fill("<script>document.title = 'broken'</script>")
    page.get_by_role("button", name="Preview", exact=True).click()
    page.get_by_role("button", name="Apply").wait_for()
    yield "preview"
    page.goto(url + "/console/nothing")
    yield "error"


def appearance(browser, url, out):
    wrong = []
    for scheme in ["light", "dark"]:
        for width, height in SIZES:
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            page = context.new_page()
            broken = []
            page.on("pageerror", lambda e: broken.append(f"a script failed: {e}"))
            page.on("request", lambda r: broken.append(f"it loads {r.url}") if not r.url.startswith(url) else None)
            page.on("console", lambda m: broken.append(m.text) if "Content Security Policy" in m.text else None)
            for name in pages(page, url):
                where = f"{name}, {width} pixels, {scheme}"
                wrong += [f"{where}: {w}" for w in look(page) + broken]
                broken.clear()
                if is_dark(page) != (scheme == "dark"):
                    wrong.append(f"{where}: its background is for the other mode")
                if out:
                    page.screenshot(path=out / f"{name}-{width}-{scheme}.png", full_page=True)
            context.close()
    return wrong


def behaviour(browser, url):
    wrong = []
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    sign_in(page, url)
    size = len(context.request.get(url + "/console").body())
    paints = []
    for _ in range(ATTEMPTS):
        page.reload()
        page.get_by_role("button", name="Drain s0/cpu").wait_for()
        # The button is in the page before it is painted.
        painted = page.wait_for_function("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
        paints.append(painted.json_value())
    print(f"console: {SERVERS} servers, {size} bytes, first paint {min(paints):.0f} ms, all: {[round(p) for p in sorted(paints)]}")
    if size > LARGEST_BYTES:
        wrong.append(f"the rack's page has {size} bytes, more than {LARGEST_BYTES}")
    if min(paints) > PAINT_MS:
        wrong.append(f"the first paint took {min(paints):.0f} ms at best, more than {PAINT_MS}")
    # By keyboard alone: the link over the heading, then a device that is drained; another window sees it.
    other = context.new_page()
    other.goto(url + "/console")
    page.reload()
    page.keyboard.press("Tab")
    if page.evaluate("document.activeElement.className") != "skip":
        wrong.append("the first stop of the Tab key does not skip to the content")
    page.get_by_role("button", name="Drain s0/cpu").focus()
    page.keyboard.press("Enter")
    page.get_by_role("status").filter(has_text="Change 1:").wait_for(timeout=PATIENCE_S * 1000)
    try:
        other.get_by_role("button", name="Enable s0/cpu").wait_for(timeout=PATIENCE_S * 1000)
    except Exception:
        wrong.append("an open page does not show what another one changed")
    context.close()
    return wrong


def main():
    arguments = sys.argv[1:]
    if len(arguments) not in (1, 3):
        sys.exit(__doc__)
    out = Path(arguments[2]) if len(arguments) == 3 else None
    if out:
        out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        folder = Path(folder)
        switch = Process(arguments[0], "switch", "--p4runtime", "127.0.0.1:0", "balancer")
        address = switch.wait_for("P4Runtime on ").split(",")[0]
        (folder / "tokens").write_text(f"<b>&quot;ops {TOKEN}\n")
        (folder / "rack.toml").write_text(rack(address))
        controller = Process(arguments[0], "controller", str(folder / "rack.toml"))
        url = controller.wait_for("API on ")
        switch.drain()
        controller.drain()
        try:
            ready(url)
            browser = launch(playwright)
            wrong = appearance(browser, url, out) + behaviour(browser, url)
            browser.close()
        finally:
            controller.end()
            switch.end()
    if wrong:
        sys.exit("\n".join(dict.fromkeys(wrong)))
    print("check_console: good")


if __name__ == "__main__":
    main()
