#!/usr/bin/env python3
"""Opens pages with charts in headless Chromium and checks what only a browser can tell.

    tests/check_pages.py PAGE.html...              # checks them
    tests/check_pages.py --out DIR PAGE.html...    # also keeps screenshots there
    tests/check_pages.py --self-test               # the checks find pages that are wrong

At 375, 768 and 1,200 pixels, light and dark: the page is not wider than the window, no visible text is smaller than 11 pixels, no two
labels of a chart overlap, text has enough contrast, the columns of verdicts are in the window, and axe-core finds nothing that keeps
people with disabilities out. It needs Playwright and axe-core (`pip install -r tests/clients/requirements-pages.txt`) and Debian's
`chromium`."""

import sys
import tempfile
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

SIZES = [(375, 800), (768, 1000), (1200, 900)]
SMALLEST_PX = 11
CONTRAST = 3.0

CHECK = """
([smallest, contrast]) => {
  const wrong = [];
  const seen = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  if (document.documentElement.scrollWidth > window.innerWidth)
    wrong.push(`the page is ${document.documentElement.scrollWidth} pixels wide, the window ${window.innerWidth}`);
  const channels = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = (c) => {
    const [r, g, b] = c.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const page = light(channels(getComputedStyle(document.body).backgroundColor));
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = node.textContent.trim(), e = node.parentElement;
    if (!text || !seen(e) || ["TITLE", "STYLE"].includes(e.tagName.toUpperCase())) continue;
    const style = getComputedStyle(e), box = e.getBoundingClientRect();
    if (box.width === 0) continue;
    let size = parseFloat(style.fontSize);
    // A chart that is scaled scales its text.
    const svg = e.ownerSVGElement;
    if (svg) size *= e.getScreenCTM().d;
    if (size < smallest - 0.01) wrong.push(`"${text}" has ${size.toFixed(1)} pixels`);
    const ink = light(channels(svg ? style.fill : style.color));
    const ratio = (Math.max(ink, page) + 0.05) / (Math.min(ink, page) + 0.05);
    if (ratio < contrast) wrong.push(`"${text}" has a contrast of ${ratio.toFixed(1)}`);
    const scrolls = e.closest(".scroll, .wide, .skip");
    if (!scrolls && (box.right > window.innerWidth + 1 || box.left < -1)) wrong.push(`"${text}" is cut off`);
  }
  for (const plot of document.querySelectorAll("svg.plot")) {
    if (!seen(plot)) continue;
    const texts = [...plot.querySelectorAll("text")].filter(seen).filter((t) => t.textContent && t.getBoundingClientRect().width > 0);
    const boxes = texts.map((t) => [t.textContent, t.getBoundingClientRect()]);
    boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
      const x = Math.min(p.right, q.right) - Math.max(p.left, q.left), y = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (x > 1 && y > 4) wrong.push(`the labels "${a}" and "${b}" overlap`);
    }));
    const box = plot.getBoundingClientRect();
    if (box.width < 150 || box.height < 100) wrong.push(`a chart has ${box.width} x ${box.height} pixels`);
    for (const line of plot.querySelectorAll("polyline")) {
      if (line.points.length > 1 && line.getBoundingClientRect().width < 1) wrong.push("a curve has no width");
    }
  }
  for (const cell of document.querySelectorAll("td[data-label=Verdict]")) {
    const box = cell.getBoundingClientRect();
    if (seen(cell) && (box.right > window.innerWidth || box.left < 0)) wrong.push(`the verdict "${cell.textContent}" is out of sight`);
  }
  return [...new Set(wrong)];
}
"""


def look(page):
    """Sentences about what is wrong with an open page."""
    wrong = page.evaluate(CHECK, [SMALLEST_PX, CONTRAST])
    for found in Axe().run(page).response["violations"]:
        places = ", ".join(str(node["target"][-1]) for node in found["nodes"][:3])
        wrong.append(f"axe: {found['id']}: {found['help']}: {len(found['nodes'])} times, such as {places}")
    return wrong


def is_dark(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0] < 128")


def launch(playwright):
    return playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])


def check(browser, path, out):
    """Sentences about what is wrong with a page."""
    wrong = []
    for scheme in ["light", "dark"]:
        for width, height in SIZES:
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            page = context.new_page()
            outside = []
            page.on("request", lambda r: outside.append(r.url))
            page.on("pageerror", lambda e: outside.append(str(e)))
            page.goto(path.resolve().as_uri())
            page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
            where = f"{path.name}, {width} pixels, {scheme}"
            wrong += [f"{where}: {w}" for w in look(page)]
            wrong += [f"{where}: it loads {url}" for url in outside[1:]]
            if is_dark(page) != (scheme == "dark"):
                wrong.append(f"{where}: its background is for the other mode")
            if out:
                page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = false; })")
                page.screenshot(path=out / f"{path.stem}-{width}-{scheme}.png", full_page=True)
            context.close()
    return wrong


GOOD = """<!doctype html><html lang="en"><title>page</title><meta name="viewport" content="width=device-width"><style>
:root {{ color-scheme: light dark; }} body {{ background: #fff; color: #111; }} text {{ font: 12px sans-serif; fill: #111; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #111; color: #eee; }} text {{ fill: #eee; }} }}
.plot {{ width: 300px; height: 200px; overflow: visible; }}</style><body><main><h1>page</h1>{}</main></body></html>"""

WRONG = {
    "pixels wide": "<div style='width: 900px'>wide</div>",
    "has 9.0 pixels": "<p style='font-size: 9px'>small</p>",
    "contrast": "<p style='color: #888; opacity: 1'><span style='color: #777'>x</span></p><p style='color:#fafafa'>pale</p><p style='color:#1a1a1a'>dark</p>",
    "overlap": "<svg class='plot'><text x='40' y='40'>one label</text><text x='50' y='42'>another</text></svg>",
    "it loads": "<img src='nothing.png'>",
    "out of sight": "<div style='overflow: hidden; width: 100%'><table><tr><td><div style='width: 1300px'>x</div><td data-label=Verdict>holds</table></div>",
    "axe: button-name": "<button></button>",
    "axe: color-contrast": "<p style='color: #888; background: #999'>grey</p>",
    " x ": "<svg class='plot' style='width: 90px'></svg>",
}


def self_test(browser):
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(GOOD.format("<svg class='plot'><text x='40' y='40'>one</text></svg>"))
        if wrong := check(browser, page, None):
            return [f"a good page: {w}" for w in wrong]
        missed = []
        for what, body in WRONG.items():
            page.write_text(GOOD.format(body))
            if not any(what in w for w in check(browser, page, None)):
                missed.append(f"not found: {what}")
        return missed


def main():
    arguments = sys.argv[1:]
    out = None
    if arguments[:1] == ["--out"] and len(arguments) > 2:
        out = Path(arguments[1])
        out.mkdir(parents=True, exist_ok=True)
        arguments = arguments[2:]
    if not arguments:
        sys.exit(__doc__)
    with sync_playwright() as playwright:
        browser = launch(playwright)
        if arguments == ["--self-test"]:
            wrong = self_test(browser)
        else:
            wrong = [w for path in arguments for w in check(browser, Path(path), out)]
        browser.close()
    if wrong:
        sys.exit("\n".join(wrong))
    print("check_pages: good")


if __name__ == "__main__":
    main()
