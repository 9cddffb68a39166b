"""The doctor's page in headless Chromium: nothing is fetched, run or complained about; 360 to 1400 pixels without scrolling
sideways; letters have contrast in light and dark; print shows the folded parts."""
import os
import subprocess
import sys
import tempfile

import chromium
import tap

CONTRAST = """(() => {
  const channel = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number); return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  return Math.min(...[...document.querySelectorAll('h1,h2,p,th,td,dt,dd,span,small,summary')].map(e => {
    const ink = light(getComputedStyle(e).color); return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05); }));
})()"""
UNNAMED = "[...document.querySelectorAll('img:not([alt]), figure:not([aria-labelledby])')].length"


def with_page(look):
    with tempfile.TemporaryDirectory() as folder:
        page = os.path.join(folder, "report.html")
        subprocess.run([PROGRAM, "--page", page], check=True)
        with chromium.Chromium() as browser:
            look(browser, page)


def check_quiet(browser, page):
    for how in ({}, {"width": 360}, {"dark": True}, {"width": 1400}, {"width": 794, "media": "print"}):
        browser.open(page, **how)
        assert browser.fetched() == [], browser.fetched()
        assert browser.complaints() == [], browser.complaints()
        width = browser.ask("document.documentElement.scrollWidth")
        assert width <= how.get("width", 1200), (how, width)
        assert browser.ask("document.scripts.length") == 0


def check_readable(browser, page):
    for dark in (False, True):
        browser.open(page, dark=dark)
        contrast = browser.ask(CONTRAST)
        assert contrast >= 4.5, (dark, contrast)
        assert browser.ask(UNNAMED) == 0


def test_quiet_and_offline():
    def look(browser, page):
        check_quiet(browser, page)
        assert "<script>alert(1)</script>" in browser.ask("document.querySelector('h1').textContent")

    with_page(look)


def test_readable():
    with_page(check_readable)


def test_a_real_answer():
    """The page of a brief examination, with the pictures and the names that it has there."""
    with tempfile.TemporaryDirectory() as folder, chromium.Chromium() as browser:
        def penstock(*arguments):
            subprocess.run([os.environ["PENSTOCK"], *arguments, "-q"], cwd=folder, check=True, stdout=subprocess.DEVNULL)

        penstock("generate", "<b>images", "--images", "24", "--size", "400")
        penstock("doctor", "folder '<b>images' | shuffle | decode | random_resized_crop 64 | flip | batch 8", "--seconds", "4", "--step-ms", "4",
                 "--html", "report.html")
        page = os.path.join(folder, "report.html")
        check_quiet(browser, page)
        check_readable(browser, page)
        assert "<b>images" in browser.ask("document.querySelector('h1').textContent")
        wanted = ["What each remedy brings", "Cost of each stage", "Timeline", "Machine and settings"]
        headings = browser.ask("[...document.querySelectorAll('h2')].map(e => e.textContent)")
        assert set(wanted) <= set(headings), headings
        assert browser.ask("[...document.querySelectorAll('img')].every(e => e.naturalWidth > 0)")
        assert browser.ask("document.querySelectorAll('svg rect').length") > 3


def test_print_unfolds():
    def look(browser, page):
        height = "document.querySelector('details table').getBoundingClientRect().height"
        browser.open(page, width=794, media="print")
        assert browser.ask(height) > 20

    with_page(look)


PROGRAM = sys.argv.pop(1)
tap.main(globals())
