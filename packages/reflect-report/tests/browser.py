"""A headless Chromium, driven by its own protocol over two pipes: no driver, no port and no library are needed."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
"""The browser; None where none is installed."""

_PLACES = (os.environ.get("AXE_CORE", ""), *(folder / "node_modules" / "axe-core" for folder in Path(__file__).parents))
AXE = next((script for place in _PLACES if (script := Path(place, "axe.min.js")).is_file()), None)
"""Script of axe-core, from `npm install --no-save axe-core` or the folder AXE_CORE; None where there is none."""

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


class Browser:
    """One tab.

    Args:
        send: file descriptor that the browser reads.
        receive: file descriptor that it writes.
    """

    def __init__(self, send: int, receive: int) -> None:
        self.send, self.receive = send, receive
        self.rest = b""
        self.number = 0
        self.errors: list[str] = []
        """What the console said since the start: errors, warnings and exceptions."""
        self.requests: list[str] = []
        """Addresses that the page asked for."""
        self.loaded = 0
        self.session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its result; events that come meanwhile are noted."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.send, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.number:
            self._note(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            chunk = os.read(self.receive, 1 << 16)
            assert chunk, "the browser has ended"
            self.rest += chunk
        line, _, self.rest = self.rest.partition(b"\0")
        return json.loads(line)

    def _note(self, event: dict[str, Any]) -> None:
        method, values = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(values["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(values["args"]))
        elif method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.errors.append(values["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded += 1

    def open(self, address: str, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Load a page at this size and colour scheme."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        # Another address that differs in its fragment alone would not load the page anew.
        self.call("Page.navigate", url="about:blank")
        before = self.loaded
        self.call("Page.navigate", url=address)
        while self.loaded == before or self.do("document.readyState") != "complete":
            self.do("new Promise(done => setTimeout(done, 20))")

    def do(self, script: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """A mouse event of the left button: `mousePressed`, `mouseMoved` or `mouseReleased`."""
        buttons = 0 if kind == "mouseReleased" else 1
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=buttons, clickCount=1)

    def picture(self, path: Path, height: int = 0) -> None:
        """Save a picture of the whole page, or of its first `height` pixels."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"], "scale": 1}
        data = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser with a profile folder of its own; it ends with the block."""
    assert CHROMIUM is not None
    to_read, send = os.pipe()
    receive, to_write = os.pipe()
    # High numbers first: one of the pipes may have the number 3 or 4 that the other needs.
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 64) for end in (to_read, to_write)]
    # The browser reads its commands from descriptor 3 and answers on 4.
    shell = ["bash", "-c", f'exec "$0" "$@" 3<&{ends[0]} 4>&{ends[1]}']
    command = [*shell, CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe"]
    process = subprocess.Popen(command, pass_fds=ends, stderr=subprocess.DEVNULL)
    for end in ends:
        os.close(end)
    os.close(to_read)
    os.close(to_write)
    try:
        yield Browser(send, receive)
    finally:
        process.terminate()
        process.wait(30)
        os.close(send)
        os.close(receive)
