"""Drives Debian's chromium over its own protocol (chromedevtools.github.io/devtools-protocol), through a pipe."""
import base64, json, os, subprocess, tempfile, time


class Browser:
    def __init__(self, url, width=1280, height=900, dark=False):
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
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
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

    def screenshot(self, path):
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.profile.cleanup()
