#!/usr/bin/env python3
"""build/page/attention.html in chromium, as a reader uses it: trains, types dates, points at weights."""
import pathlib, sys

from browser import Browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "build" / "page" / "attention.html"


def text(page, identity):
    return page.run(f"document.getElementById('{identity}').textContent")


def write(page, date):
    """What the page answers to a date that is typed."""
    page.run(f"document.getElementById('written').replaceChildren(); document.getElementById('date').value = {date!r};"
             "document.getElementById('try').requestSubmit()")
    page.wait("document.getElementById('written').textContent", 60)
    return text(page, "written")


def trains_to_99_percent(page):
    page.run("document.getElementById('start').click()")
    page.wait("document.getElementById('status').textContent.includes('in all')", 600)
    status = text(page, "status")
    print(status)
    assert float(status.split("; ")[2].split(" %")[0]) >= 99, status
    assert page.run("document.querySelectorAll('#maps figure').length") == 3


def writes_a_date(page):
    assert "3 May 79 → 1979-05-03" in write(page, "3 May 79")
    rows = page.run("""(() => {
        const cells = [...document.querySelectorAll('#written .map > i')].slice(1), n = '3 May 79'.length;
        const weights = cells.map((cell) => Number(cell.style.getPropertyValue('--weight')));
        return Array.from({length: cells.length / n}, (_, i) => weights.slice(i * n, (i + 1) * n).reduce((a, b) => a + b));
    })()""")
    assert len(rows) == len("1979-05-03") and all(abs(row - 1) < 1e-4 for row in rows), rows


def says_a_weight(page):
    page.run("""document.querySelector('#written .map').dispatchEvent(
        new KeyboardEvent('keydown', {key: 'ArrowDown', cancelable: true}))""")
    assert "“1” reads “3” with weight 0." in text(page, "written"), text(page, "written")


def shows_what_is_typed(page):
    hostile = "<script>document.title = 'run'</script>"
    assert "is in none of the dates" in write(page, hostile)
    assert page.run("document.title") == "Attention, as it is learnt"
    assert page.run("document.querySelectorAll('#written script').length") == 0


def fits_a_telephone(page):
    page.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
    assert page.run("document.documentElement.scrollWidth") <= 390


def starts_again(page):
    page.run("document.getElementById('again').click()")
    assert text(page, "start") == "Train" and text(page, "maps") == ""
    assert page.run("document.getElementById('write').disabled")


def main():
    page = Browser(PAGE.as_uri())
    page.wait("!document.getElementById('start').disabled", 60)
    failed = 0
    checks = [trains_to_99_percent, writes_a_date, says_a_weight, shows_what_is_typed, fits_a_telephone, starts_again]
    for check in checks:
        try:
            check(page)
        except AssertionError as error:
            failed += 1
            print(f"{check.__name__}: {error}")
    page.close()
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
