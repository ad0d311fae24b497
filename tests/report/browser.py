"""Debian's chromium, driven through its DevTools pipe: no driver, no socket, nothing but the standard library."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
    "--remote-debugging-pipe", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip


def find() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page; `errors` collects what the console and the page complain about."""

    def __init__(self, profile: Path) -> None:
        child_in, self.writer = os.pipe()
        self.reader, child_out = os.pipe()
        # The protocol wants its pipe at descriptors 3 and 4.
        line = f'exec "$0" "$@" 3<&{child_in} 4>&{child_out}'
        command = ["bash", "-c", line, find() or "", *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(
            command, pass_fds=(child_in, child_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(child_in)
        os.close(child_out)
        self.buffer, self.number, self.errors = b"", 0, []
        self.session: str | None = None
        pages = [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        found = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)
        self.session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self.writer)
        self.process.terminate()
        self.process.wait(timeout=20)
        os.close(self.reader)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        message |= {"sessionId": self.session} if self.session else {}
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.next()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def next(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            part = os.read(self.reader, 1 << 16)
            assert part, "chromium is gone"
            self.buffer += part
        line, self.buffer = self.buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
            self.errors.append(message["params"])
        if message.get("method") == "Page.javascriptDialogOpening":
            self.errors.append(message["params"])
        return message

    def open(self, path: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        wish = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=wish)
        self.call("Page.navigate", url=path.resolve().as_uri())
        while self.next().get("method") != "Page.loadEventFired":
            pass

    def run(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, path: Path, top: int = 0, height: int = 1600) -> None:
        width = self.run("innerWidth")
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        shot = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))
