"""Headless Chromium: the system's, or the one installed by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Error, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def open_chromium() -> Iterator[Browser]:
    """Launch a browser.

    Raises:
        RuntimeError: if there is no Chromium.
    """
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    # Chromium's sandbox does not start as root, which is the user in most containers.
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=found, args=arguments)
        except Error as error:
            raise RuntimeError(f"No Chromium starts, which make browser finds or installs: {error}") from error
        try:
            yield browser
        finally:
            browser.close()
