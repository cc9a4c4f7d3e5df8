#!/usr/bin/env python3
"""build/page/attention.html in chromium, as a reader uses it: trains, types dates, points at weights."""
import json, os, pathlib, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "build" / "page" / "attention.html"


class Browser:
    """Debian's chromium, driven over its own protocol (chromedevtools.github.io/devtools-protocol) through a pipe."""

    def __init__(self, url):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.writes = os.pipe()
        self.reads, from_browser = os.pipe()
        # The browser reads from descriptor 3 and writes to 4.
        pipes = f"exec chromium \"$@\" 3<&{to_browser} 4>&{from_browser}"
        self.process = subprocess.Popen(
            ["sh", "-c", pipes, "sh", "--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu",
             f"--user-data-dir={self.profile.name}", "about:blank"],
            pass_fds=(to_browser, from_browser), stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.buffer, self.session = 0, b"", None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.navigate", url=url)
        self.wait("location.href != 'about:blank' && document.readyState == 'complete'", 60)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writes, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.buffer:
                got = os.read(self.reads, 1 << 20)
                assert got, "chromium has ended"
                self.buffer += got
            text, self.buffer = self.buffer.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def run(self, expression):
        """The value of an expression of JavaScript in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression, seconds):
        """Until the expression is true."""
        end = time.monotonic() + seconds
        while not self.run(expression):
            assert time.monotonic() < end, f"{expression} is not true after {seconds} s; {self.run('document.body.innerText')}"
            time.sleep(0.2)

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.profile.cleanup()


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
    page.wait("document.getElementById('start').textContent == 'Train'", 60)
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
