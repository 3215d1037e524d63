"""Firefox, driven by tests through WebDriver BiDi."""

import contextlib
import json
import os
import re
import shutil
import subprocess

import pytest

from harness import ANSWER_SECONDS, START_SECONDS, connect, eventually

PROGRAM = next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)
NEEDED = pytest.mark.skipif(PROGRAM is None, reason="NOT TESTED: there is no firefox here (package firefox-esr)")


class Firefox:
    """One window of a browser that knows nothing yet."""

    def __init__(self, folder):
        self.folder, self.count, self.stack = folder, 0, contextlib.ExitStack()

    def __enter__(self):
        profile = self.folder / "profile"
        profile.mkdir()
        log = self.folder / "log"
        with open(log, "wb") as file:
            self.proc = subprocess.Popen(
                [PROGRAM, "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0", "about:blank"],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                env={**os.environ, "HOME": str(self.folder), "MOZ_DISABLE_CONTENT_SANDBOX": "1"})
        try:
            found = eventually(lambda: re.search(r"WebDriver BiDi listening on (\S+)", log.read_text()), START_SECONDS)
            assert found, log.read_text()
            self.socket = self.stack.enter_context(connect(found.group(1) + "/session", proxy=None))
            self.call("session.new", capabilities={})
            self.window = self.call("browsingContext.getTree")["contexts"][0]["context"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.stack.close()
        self.proc.kill()
        self.proc.wait()

    def call(self, method, **params):
        self.count += 1
        self.socket.send(json.dumps({"id": self.count, "method": method, "params": params}))
        while True:
            answer = json.loads(self.socket.recv(timeout=ANSWER_SECONDS))
            if answer.get("id") == self.count:
                assert answer["type"] == "success", answer
                return answer["result"]

    def open(self, url):
        self.call("browsingContext.navigate", context=self.window, url=url, wait="complete")

    def evaluate(self, expression):
        """Of strings, numbers and the like; None for what is none of these."""
        answer = self.call("script.evaluate", expression=expression, target={"context": self.window}, awaitPromise=True)
        assert answer["type"] == "success", answer
        return answer["result"].get("value")
