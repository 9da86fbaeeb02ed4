"""A Chromium without a window, driven over its debugging pipe (Chrome DevTools Protocol) by the standard library."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 120
"""How long an answer may take before the browser counts as stuck; nothing is measured by it."""


def found() -> str | None:
    """The path of a browser, or None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page at a time; ``errors`` are what its console said since it was opened."""

    def __init__(self, program: str) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="rpsim-browser-", ignore_cleanup_errors=True)
        its_input, self._to = os.pipe()
        self._from, its_output = os.pipe()

        def wire() -> None:  # the pipe is file descriptors 3 and 4 of the browser
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (its_input, its_output)]
            for number, end in enumerate(ends, start=3):
                os.dup2(end, number)

        options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe"]
        self._process = subprocess.Popen(
            [program, *options, f"--user-data-dir={self._home.name}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=wire,  # noqa: PLW1509
            pass_fds=(3, 4),
        )
        os.close(its_input)
        os.close(its_output)
        self._numbers, self._rest, self._session = 0, b"", ""
        self._told: list[dict[str, Any]] = []
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def open(self, page: Path) -> None:
        """Load a file, to the end of its scripts."""
        self._told.clear()
        self.errors.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._told):
            self._told.append(self._next())
        self.evaluate("0")  # what the console said until now has arrived

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page. Raises AssertionError for one that throws."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def call(self, method: str, **params: object) -> Any:
        """Send a command and wait for its answer; events meanwhile are kept."""
        self._numbers += 1
        command = {"id": self._numbers, "method": method, "params": params}
        command |= {"sessionId": self._session} if self._session else {}
        os.write(self._to, json.dumps(command).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == self._numbers:
                assert "error" not in message, message["error"]
                return message["result"]
            self._told.append(message)

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, end - time.monotonic()))
            read = os.read(self._from, 1 << 16) if ready else b""
            assert read, "the browser does not answer"
            self._rest += read
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(" ".join(str(one.get("value", one.get("description"))) for one in params["args"]))

    def close(self) -> None:
        """End the browser and remove what it wrote."""
        os.close(self._to)
        os.close(self._from)
        self._process.terminate()
        self._process.wait()
        self._home.cleanup()
