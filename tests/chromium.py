"""Opens a page in headless Chromium, through its debugging pipe: what it fetches, what it complains about, how wide it is, and
pictures of it. Skips where there is no Chromium.

    python3 chromium.py PAGE.html PREFIX      writes PREFIX-{desktop,phone,dark,print}.png
"""
import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

import tap
from patience import HANG

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Chromium:
    """One browser with one page. Events are collected in `events`."""

    def __init__(self):
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if not program:
            raise tap.Skip("there is no Chromium here: scripts/install_test_packages.sh installs it")
        self.profile = tempfile.mkdtemp()
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def place():  # Chromium reads from 3 and writes to 4
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
             "--user-data-dir=" + self.profile, "--no-first-run", "--disable-background-networking", "about:blank"],
            preexec_fn=place, pass_fds=(3, 4, to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self._rest, self._number, self.events, self._session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for name in ("Page", "Runtime", "Network", "Log"):
            self.call(name + ".enable")

    def _message(self, until):
        while b"\0" not in self._rest:
            if not select.select([self._read], [], [], max(0.0, until - time.monotonic()))[0]:
                return None
            part = os.read(self._read, 1 << 20)
            if not part:
                raise RuntimeError("Chromium has ended")
            self._rest += part
        text, self._rest = self._rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + HANG
        while True:
            answer = self._message(until)
            if answer is None:
                raise RuntimeError(f"{method}: no answer")
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path, width=1200, dark=False, media=""):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events.clear()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        until = time.monotonic() + HANG
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            event = self._message(until)
            if event is None:
                raise RuntimeError("the page does not load")
            self.events.append(event)

    def ask(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def picture(self, path):
        height = min(16000, self.ask("document.documentElement.scrollHeight"))
        width = self.ask("window.innerWidth")
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def fetched(self):
        """Addresses that the page asked for, besides itself and data URIs."""
        found = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [url for url in found if not url.startswith("data:")][1:]

    def complaints(self):
        """Messages on the console, exceptions and dialogs."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening")
        return [event for event in self.events if event.get("method") in kinds]

    def close(self):
        os.close(self._write)
        os.close(self._read)
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()


def main(page, prefix):
    with Chromium() as browser:
        for name, how in {"desktop": {}, "phone": {"width": 360}, "dark": {"dark": True}, "print": {"width": 794, "media": "print"}}.items():
            browser.open(page, **how)
            browser.picture(f"{prefix}-{name}.png")
            print(name, "wide:", browser.ask("document.documentElement.scrollWidth"), "fetched:", browser.fetched(),
                  "complaints:", browser.complaints())


if __name__ == "__main__":
    main(*sys.argv[1:])
