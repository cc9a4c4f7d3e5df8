#!/usr/bin/env python3
"""Tests build/page/attention.html and reports in chromium: training, input of dates, heat maps, charts. Exit status 77 if either is missing."""
import contextlib, json, math, os, pathlib, shutil, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "build" / "page" / "attention.html"
ATTUNE = ROOT / "build" / "examples" / "attune"


class Browser:
    """Debian's chromium, controlled by the DevTools protocol (chromedevtools.github.io/devtools-protocol) over a pipe."""

    def __init__(self, url):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.writes = os.pipe()
        self.reads, from_browser = os.pipe()
        # The browser reads from descriptor 3 and writes to 4.
        pipes = f"exec chromium \"$@\" 3<&{to_browser} 4>&{from_browser}"
        self.process = subprocess.Popen(
            ["bash", "-c", pipes, "bash", "--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu",
             f"--user-data-dir={self.profile.name}", "about:blank"],
            pass_fds=(to_browser, from_browser), stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.buffer, self.session, self.errors = 0, b"", None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Runtime.enable")
        self.call("Log.enable")
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
            if answer.get("method") == "Runtime.exceptionThrown" or \
                    answer.get("method") == "Log.entryAdded" and answer["params"]["entry"]["level"] == "error":
                self.errors.append(answer["params"])
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def run(self, expression):
        """Evaluates a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression, seconds):
        """Waits until the expression is true."""
        end = time.monotonic() + seconds
        while not self.run(expression):
            assert time.monotonic() < end, f"{expression} is not true after {seconds} s; {self.run('document.body.innerText')}"
            time.sleep(0.2)

    def close(self):
        assert not self.errors, self.errors
        self.process.terminate()
        self.process.wait()
        self.profile.cleanup()


@contextlib.contextmanager
def opened(path):
    page = Browser(pathlib.Path(path).as_uri())
    try:
        yield page
    finally:
        page.close()


def text(page, selector):
    return page.run(f"document.querySelector({selector!r}).textContent")


def click(page, selector):
    page.run(f"document.querySelector({selector!r}).click()")


def slide(page, label, value):
    page.run(f"""(() => {{
        const slider = document.querySelector('#written [aria-label="{label}"]');
        slider.value = {value};
        for (const event of ['input', 'change']) slider.dispatchEvent(new Event(event));
    }})()""")


def write(page, date):
    """Enters a date; returns the text of the result."""
    page.run(f"document.getElementById('written').replaceChildren(); document.getElementById('date').value = {date!r};"
             "document.getElementById('try').requestSubmit()")
    page.wait("document.getElementById('written').textContent", 60)
    return text(page, "#written")


def starts_trained(page):
    """Within a second, the page has loaded the weights of the quickstart; the fastest of three loads counts."""
    ready = "performance.getEntriesByName('ready')[0]?.startTime"
    times = []
    for _ in range(3):
        page.call("Page.reload")
        page.wait(ready, 60)
        times.append(page.run(f"{ready} - performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"))
    print("ready to predict after", [round(time) for time in times], "ms")
    assert min(times) < 1000, times
    assert text(page, "[data-lesson=dates] .start") == "Train"
    page.wait("document.querySelectorAll('#maps figure').length == 3", 60)
    assert "May the 4th, 2005 → 2005-05-04" in text(page, "#maps")
    assert not page.run("document.querySelector('#maps .wrong')")
    assert "December 24, 2010 → 2010-12-24" in write(page, "December 24, 2010")


def trains_to_99_percent(page):
    click(page, "[data-lesson=dates] .start")
    page.wait("document.querySelector('[data-lesson=dates] .status').textContent.includes('in all')", 600)
    status = text(page, "[data-lesson=dates] .status")
    print(status)
    assert float(status.split("; ")[2].split(" %")[0]) >= 99, status
    assert page.run("document.querySelectorAll('#maps figure').length") == 3


def weights(page, selector):
    """The weights of a heat map, row by row, with three decimals."""
    return page.run(f"[...document.querySelector('{selector}').querySelectorAll('.heat title')].map("
                    "({textContent}) => Number(textContent.split(': ').at(-1)))")


def writes_a_date(page):
    assert "3 May 79 → 1979-05-03" in write(page, "3 May 79")
    n, cells = len("3 May 79"), weights(page, "#written .drawing")
    rows = [sum(cells[i:i + n]) for i in range(0, len(cells), n)]
    assert len(rows) == len("1979-05-03") and all(abs(row - 1) < 0.01 for row in rows), rows
    leaves = page.run("[...document.querySelectorAll('#written .tree li')].filter((li) => !li.querySelector('li')).length")
    assert leaves == 4, leaves


def shows_a_weight(page):
    """The arrow keys select a cell: its weight, and the step of the decoder."""
    for key in ["ArrowDown", "ArrowDown", "ArrowRight"]:
        page.run(f"""document.querySelector('#written .drawing').dispatchEvent(
            new KeyboardEvent('keydown', {{key: '{key}', bubbles: true, cancelable: true}}))""")
    told = text(page, "#written output")
    assert told.startswith("\u20689\u2069 ← \u2068␣\u2069: 0."), told
    assert "Step 2: after “1”, the model predicts “9”." in text(page, "#written")
    assert page.run("document.querySelectorAll('#written .flow .lit').length") == 1


def lights_up_the_data_flow(page):
    for part in ["encoder", "annotations", "score", "softmax", "context", "decoder"]:
        page.run(f"document.querySelector('#written .flow [data-part={part}]').dispatchEvent(new PointerEvent('pointerover', {{bubbles: true}}))")
        lit = page.run("[...document.querySelectorAll('#written .lit')].map((one) => one.dataset.part)")
        assert lit and set(lit) == {part}, (part, lit)


def steps_through_the_decoder(page):
    slide(page, "Step of the decoder", 5)
    assert "Step 6: after “1979-”, the model predicts “0”." in text(page, "#written")
    rows = page.run("""[...document.querySelectorAll('#written .step tr')].slice(1, 3).map(
        (row) => [...row.querySelectorAll('td')].map((cell) => Number(cell.textContent)))""")
    e, weights = rows
    greatest = max(e)
    powers = [math.exp(score - greatest) for score in e]
    for power, weight in zip(powers, weights):
        assert abs(power / sum(powers) - weight) < 0.05, rows  # e is rounded to tenths


def continues_with_another_weight(page):
    """Sets the weight of the digit 7 to 1 for the last character: the decoder then predicts 7."""
    slide(page, "Step of the decoder", 9)
    slide(page, "Weight of 7, position 7", 1)
    page.wait("!document.querySelector('#written').textContent.includes('→ 1979-05-03')", 60)
    assert "→ 1979-05-07" in text(page, "#written"), text(page, "#written")
    assert "c = 1.00 h(7)" in text(page, "#written"), text(page, "#written")
    click(page, "#written button")
    page.wait("document.querySelector('#written').textContent.includes('→ 1979-05-03')", 60)


def shows_what_is_typed(page):
    hostile = "<script>document.title = 'run'</script>"
    assert "does not occur in the training dates" in write(page, hostile)
    assert page.run("document.title") == "Attention while it is learnt"
    assert page.run("document.querySelectorAll('#written script').length") == 0


def fits_telephones_and_screens(page):
    assert "3 May 79 → 1979-05-03" in write(page, "3 May 79")
    sizes = set()
    for width in 390, 1280:
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500)
        assert page.run("document.documentElement.scrollWidth") <= width
        cells = page.run("[...document.querySelectorAll('.heat rect')].map((cell) => cell.getBoundingClientRect().width.toFixed(2))")
        assert len(set(cells)) == 1, set(cells)  # one size in all maps
        sizes.add(cells[0])
    assert len(sizes) == 2, sizes


def draws_charts(page):
    def chart(points, log="false", x="[0]"):
        html = page.run(f"lineChart({{title: 't', unit: 'u', log: {log}}}, 'x', {x}, [{{name: 's', points: {points}}}]).outerHTML")
        assert "NaN" not in html and "Infinity" not in html, html
        return html
    assert "axis from 0;" in chart("[[1, 20], [2, 90]]") and "axis from 96;" in chart("[[1, 96], [2, 99]]")
    assert ">1000<" in chart("[[1, 1], [9, 2]]", x="[1000]")
    logarithmic = chart("[[0, 1], [1, 10], [2, 100], [3, 1000]]", log="true")
    heights = [float(point.split()[1]) for point in logarithmic.split('class="line" d="M')[1].split('"')[0].split("L")]
    assert max(abs(a - b - (heights[0] - heights[3]) / 3) for a, b in zip(heights, heights[1:])) < 0.2, heights
    for points in "[]", "[[1, 0]]", "[[1, 5], [2, 5]]", "[[1, 1e-9], [2, 1e9]]", "[[1, NaN], [2, 1], [3, Infinity]]":
        for log in "false", "true":
            assert "attune-chart" in chart(points, log)


def trains_two_models(page):
    click(page, "#beside")
    page.wait("document.querySelector('[data-lesson=dates] .status').textContent.includes('77,903 parameters')", 60)
    assert text(page, "[data-lesson=dates] .start") == "Train" and text(page, "#maps") == ""
    assert page.run("document.getElementById('write').disabled")
    click(page, "[data-lesson=dates] .start")
    page.wait("!document.getElementById('write').disabled", 300)
    assert "no attention, GRU" in write(page, "3 May 79")
    click(page, "[data-lesson=dates] .start")
    assert page.run("document.querySelectorAll('#maps figure').length") == 6
    assert page.run("document.querySelectorAll('#maps .drawing').length") == 3  # none for the model without attention


def changes_the_score(page):
    click(page, "#beside")
    page.run("(() => { const score = document.querySelector('#models [name=attention]');"
             "score.value = 'score=dot'; score.dispatchEvent(new Event('change', {bubbles: true})); })()")
    page.wait("document.querySelector('[data-lesson=dates] .status').textContent.includes('69,711 parameters')", 60)


def trains_a_transformer(page):
    page.run("(() => { const score = document.querySelector('#models [name=attention]');"
             "score.value = 'model=transformer'; score.dispatchEvent(new Event('change', {bubbles: true})); })()")
    page.wait("document.querySelector('[data-lesson=dates] .status').textContent.includes('not trained yet')", 60)
    click(page, "[data-lesson=dates] .start")
    page.wait("!document.getElementById('write').disabled", 300)
    assert "Transformer; probability" in write(page, "3 May 79")
    click(page, "[data-lesson=dates] .start")
    assert page.run("document.querySelectorAll('#written .drawing').length") == 5  # the mean, and four heads
    mean, heads = weights(page, "#written .drawing"), [weights(page, f"#written figure:nth-child({k}) .drawing") for k in (2, 3, 4, 5)]
    assert all(abs(m - sum(of) / 4) < 0.002 for m, of in zip(mean, zip(*heads)))


def trains_on_sentences(page):
    click(page, "[data-lesson=sentences] .start")
    page.wait("document.querySelectorAll('[data-lesson=sentences] .chart svg > g').length == 2", 300)  # two models
    click(page, "[data-lesson=sentences] .start")
    assert "without attention" in text(page, "[data-lesson=sentences] .chart")


def answers_for_a_checkpoint(_):
    """The page predicts the same for a checkpoint as the native program. The report shows the weight of a cell."""
    def attune(*arguments):
        return subprocess.run([ATTUNE, *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout

    with tempfile.TemporaryDirectory() as directory:
        pairs, report = f"{directory}/pairs.tsv", f"{directory}/report.html"
        pathlib.Path(pairs).write_text("".join(f"{7919 * n} </script>\t{7 * n} b\n" for n in range(1000, 2000)))
        for options in (["--tokens", "characters"], ["--tokens", "words", "--model", "transformer", "--hidden", "32"]):
            model = f"{directory}/{options[1]}"
            attune("train", pairs, "--out", model, "--steps", "60", *options)
            native = json.loads(attune("predict", "--model", model, "--json", "--beam", "4", "--", "7919000 </script>"))
            attune("report", "--model", model, "--out", report)
            with opened(report) as page:
                cell, told = page.run("""(() => {
                    const cell = document.querySelector('.heat rect');
                    cell.dispatchEvent(new PointerEvent('pointerover', {bubbles: true}));
                    return [cell.textContent, cell.closest('.drawing').nextElementSibling.textContent];
                })()""")
                assert cell and told == cell, (cell, told)
                assert page.run("document.querySelectorAll('.attune-chart').length") == 2
            subprocess.run([ROOT / "examples/page/build.sh", f"{model}/best.safetensors", report], check=True, stdout=subprocess.DEVNULL)
            with opened(report) as page:
                page.wait("!document.getElementById('write').disabled", 60)
                assert f"7919000 </script> → {native['best'][0]['target']}" in write(page, "7919000 </script>"), text(page, "#written")
                cells = weights(page, "#written .drawing")
            expected = [weight for row in native["attention"] for weight in row]
            assert len(cells) == len(expected) > 0 and all(abs(a - b) < 6e-4 for a, b in zip(cells, expected)), (cells, expected)


def main():
    if not (PAGE.exists() and shutil.which("chromium")):
        print("tests/run.sh page builds build/page/attention.html, and tests it in chromium")
        return 77
    page = Browser(PAGE.as_uri())
    page.wait("!document.querySelector('[data-lesson=dates] .start').disabled", 60)
    failed = 0
    checks = [starts_trained, writes_a_date, shows_a_weight, lights_up_the_data_flow, steps_through_the_decoder,
              continues_with_another_weight, shows_what_is_typed, fits_telephones_and_screens, draws_charts, trains_to_99_percent,
              trains_two_models, changes_the_score, trains_a_transformer, trains_on_sentences]
    if ATTUNE.exists():
        checks.append(answers_for_a_checkpoint)
    else:
        print(f"answers_for_a_checkpoint is skipped: there is no {ATTUNE}")
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
