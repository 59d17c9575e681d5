"""A headless Chromium, driven by a small WebDriver client of our own.

It speaks the W3C protocol to Debian's chromedriver over plain HTTP; tests that need it are skipped where one of the
two programs is missing.
"""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

__all__ = ["KEYS", "Browser", "Found", "why_no_browser"]

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
_PATIENCE_S = 20.0
KEYS = {
    "enter": "\ue007",
    "escape": "\ue00c",
    "left": "\ue012",
    "up": "\ue013",
    "right": "\ue014",
    "down": "\ue015",
    "page_down": "\ue00f",
    "page_up": "\ue00e",
    "home": "\ue011",
    "end": "\ue010",
    "tab": "\ue004",
    "shift": "\ue008",
    "control": "\ue009",
    "space": " ",
}
"""Keys that are no characters."""


def why_no_browser() -> str | None:
    """Why no test can run in a browser here, or None when it can."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(missing)} not installed (Debian: chromium, chromium-driver)" if missing else None


class Browser:
    """One headless Chromium with one window.

    Args:
        folder: for its profile and what it downloads (in ``folder/downloads``).
    """

    def __init__(self, folder: Path) -> None:
        self.downloads = folder / "downloads"
        self.downloads.mkdir(parents=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        command = ["chromedriver", f"--port={self._port}", "--log-level=SEVERE"]
        self._driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._session = ""
        try:
            self._session = self._begin(folder)
            self._devtools("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))
        except BaseException:
            self.close()
            raise

    def _begin(self, folder: Path) -> str:
        arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            f"--user-data-dir={folder / 'profile'}",
        ]
        chrome = {"args": arguments, "binary": shutil.which("chromium")}
        chrome["prefs"] = {"download.default_directory": str(self.downloads), "download.prompt_for_download": False}
        wanted = {"browserName": "chrome", "goog:chromeOptions": chrome, "goog:loggingPrefs": {"browser": "ALL"}}
        end = time.monotonic() + 60
        while True:
            try:
                value = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
                return str(value["sessionId"])
            except ConnectionRefusedError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise BrowserError(f"{value['error']}: {value.get('message', '')[:500]}", kind=value["error"])
        return value

    def do(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """A command of the session."""
        return self._ask(method, f"/session/{self._session}{path}", body)

    def close(self) -> None:
        """End the browser and its driver."""
        try:
            if self._session:
                self.do("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait(20)

    def open(self, url: str) -> None:
        """Go to a URL; returns when it is loaded."""
        self.do("POST", "/url", {"url": url})

    def reload(self) -> None:
        """Load the page again."""
        self.do("POST", "/refresh", {})

    def script(self, code: str, *args: Any) -> Any:
        """Run JavaScript as the body of a function; it may await."""
        end = "const done = arguments[arguments.length - 1]"
        body = f"{end}; (async () => {{ {code} }})().then(done, (e) => done({{failed: String(e)}}))"
        value = self.do("POST", "/execute/async", {"script": body, "args": list(args)})
        if isinstance(value, dict) and "failed" in value:
            raise BrowserError(value["failed"])
        return value

    def find(self, css: str) -> Found:
        """The first element that matches, as soon as there is one."""
        return self.wait(lambda: next(iter(self.find_all(css)), None), f"no element {css}")

    def find_all(self, css: str) -> list[Found]:
        """All elements that match now."""
        found = self.do("POST", "/elements", {"using": "css selector", "value": css})
        return [Found(self, one[_ELEMENT]) for one in found]

    def text(self, css: str) -> str:
        """What is written in the first element that matches."""
        return self.find(css).text

    def click(self, css: str) -> None:
        """Click the first element that matches, as a user does."""
        self.wait(lambda: self._clicked(css), f"{css} cannot be clicked")

    def _clicked(self, css: str) -> bool:
        try:
            self.find(css).click()
        except BrowserError as error:
            if error.kind in ("element click intercepted", "stale element reference", "element not interactable"):
                return False
            raise
        return True

    def keys(self, *keys: str) -> None:
        """Press keys one after the other: characters, or names of KEYS; ``shift+right`` presses both."""
        steps: list[dict[str, str]] = []
        for key in keys:
            parts = [KEYS.get(part, part) for part in (key.split("+") if len(key) > 1 else [key])]
            steps += [{"type": "keyDown", "value": part} for part in parts]
            steps += [{"type": "keyUp", "value": part} for part in reversed(parts)]
        self.do("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": steps}]})

    def wait(self, function: Callable[[], Any], about: str = "it does not happen", seconds: float = _PATIENCE_S) -> Any:
        """What a function gives, as soon as it gives anything true."""
        end = time.monotonic() + seconds
        while True:
            try:
                if value := function():
                    return value
            except BrowserError as error:
                if error.kind != "stale element reference":
                    raise
            if time.monotonic() > end:
                body = self.script("return document.body.innerText.slice(0, 2000)")
                raise AssertionError(f"{about}; the page says: {body}; console: {self.console()}")
            time.sleep(0.05)

    def size(self, width: int, height: int) -> None:
        """Make the page so large, in pixels: narrower than a window of a desktop can be, too."""
        sides = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._devtools("Emulation.setDeviceMetricsOverride", **sides)

    def scheme(self, name: str) -> None:
        """``light`` or ``dark``."""
        self._devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def _devtools(self, command: str, **params: Any) -> None:
        self.do("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def wheel(self, css: str, down: int) -> None:
        """Turn the wheel over an element."""
        origin = {_ELEMENT: self.find(css).id}
        action = {"type": "scroll", "x": 0, "y": 0, "deltaX": 0, "deltaY": down, "duration": 0, "origin": origin}
        self.do("POST", "/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [action]}]})

    def screenshot(self, path: str | os.PathLike[str]) -> None:
        """What is seen, as a PNG."""
        Path(path).write_bytes(base64.b64decode(self.do("GET", "/screenshot")))

    def console(self) -> list[str]:
        """Errors and warnings of the console since the last time."""
        entries = self.do("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]


class Found:
    """An element of a page."""

    def __init__(self, browser: Browser, id: str) -> None:
        self._browser = browser
        self.id = id

    @property
    def text(self) -> str:
        """What is written in it."""
        return str(self._browser.do("GET", f"/element/{self.id}/text"))

    def attribute(self, name: str) -> str | None:
        """One of its attributes."""
        value = self._browser.do("GET", f"/element/{self.id}/attribute/{name}")
        return None if value is None else str(value)

    def click(self) -> None:
        """Click it."""
        self._browser.do("POST", f"/element/{self.id}/click", {})

    def type(self, text: str, *, clear: bool = False) -> None:
        """Type into it."""
        if clear:
            self._browser.do("POST", f"/element/{self.id}/clear", {})
        if text:
            self._browser.do("POST", f"/element/{self.id}/value", {"text": text})


class BrowserError(Exception):
    """The browser refused a command."""

    def __init__(self, message: str, *, kind: str = "") -> None:
        self.kind = kind
        super().__init__(message)
