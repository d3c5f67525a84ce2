"""The site: strict, complete, and readable without a network."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kgedit

ROOT = Path(__file__).resolve().parents[3]


def _build(source: Path, target: Path, pages: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", pages, source, target]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Where `make lint` or `make docs` has built it, pages that changed since then are read again."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    if (ROOT / "site").is_dir():
        shutil.copytree(ROOT / "site", folder)
    built = _build(ROOT / "docs", folder, folder / ".doctrees")
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.slow
class TestTheSite:
    def test_every_public_name_has_its_docstring(self, site: Path) -> None:
        page = (site / "reference" / "python.html").read_text(encoding="utf-8")
        shown = set(re.findall(r'id="kgedit\.(\w+)"', page))
        assert {name for name in kgedit.__all__ if not name.startswith("_")} <= shown
        assert "Name of an editing method" in page, "an argument of kgedit.edit"

    def test_no_page_loads_anything_from_another_host(self, site: Path) -> None:
        for page in site.rglob("*.html"):
            loaded = re.findall(r'<(?:script|img|link)\b[^>]*?(?:src|href)="([^"]+)"', page.read_text(encoding="utf-8"))
            assert [address for address in loaded if "//" in address] == [], page.name


@pytest.mark.slow
def test_a_broken_link_and_a_page_out_of_the_navigation_are_errors(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text((ROOT / "docs" / "conf.py").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "index.md").write_text("# Start\n\n[Gone](gone.md) [Nowhere](#nowhere)\n", encoding="utf-8")
    (tmp_path / "orphan.md").write_text("# Orphan\n", encoding="utf-8")
    built = _build(tmp_path, tmp_path / "site", tmp_path / "pages")
    assert built.returncode != 0
    for problem in ("'gone.md'", "'nowhere'", "isn't included in any toctree"):
        assert problem in built.stderr
