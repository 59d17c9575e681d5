"""Shared by the tests of the viewer: a browser, and viewers of small datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.viewer.browser import Browser, why_no_browser

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def _chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if reason := why_no_browser():
        pytest.skip(reason)
    browser = Browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.fixture
def browser(_chromium: Browser) -> Iterator[Browser]:
    """A browser of 1200 x 800 pixels, light; after the test its console must be empty."""
    _chromium.size(1200, 800)
    _chromium.scheme("light")
    _chromium.open("about:blank")
    _chromium.console()
    yield _chromium
    ended = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")  # a viewer that was closed
    assert [line for line in _chromium.console() if not any(word in line for word in ended)] == []
