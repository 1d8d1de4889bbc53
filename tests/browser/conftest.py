"""A headless browser, driven by playwright: its own chromium where that is installed, else the system's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        program = str(own) if own.exists() else next((found for name in NAMES if (found := shutil.which(name))), None)
        if program is None:
            pytest.skip(f"no browser: neither {own} nor one of {', '.join(NAMES)}; make browser installs one")
        # Chromium's sandbox refuses root, who runs the tests in containers; the pages are our own.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        try:
            started = playwright.chromium.launch(executable_path=program, args=flags)
        except api.Error as exc:
            pytest.skip(f"{program} does not start: {str(exc).splitlines()[0]}")
        yield started
        started.close()


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Return where screenshots go, to be looked at."""
    folder = ROOT / "build" / "browser"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
