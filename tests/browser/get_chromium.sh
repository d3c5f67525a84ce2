#!/bin/sh
# Finds a Chromium for the tests of pages, or installs one: the package of the system where that can be done without
# asking anybody, else the build that Playwright fetches. Says which one it is.
set -eu

for name in chromium chromium-browser google-chrome google-chrome-stable; do
  if command -v "$name" >/dev/null; then
    "$name" --version
    exit 0
  fi
done
built=$(python -c 'from playwright.sync_api import sync_playwright as start
with start() as playwright: print(playwright.chromium.executable_path)')
if [ -x "$built" ]; then
  echo "$built"
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq
  # Ubuntu's package of this name only fetches a snap; its list has none that apt-get could install here.
  if apt-get install -y -qq --no-install-recommends chromium >/dev/null && command -v chromium >/dev/null; then
    chromium --version
    exit 0
  fi
fi
python -m playwright install chromium
