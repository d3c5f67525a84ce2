"""What all tests share: one thread for arithmetic, and real data that is there or is missed aloud.

No network and no GPU. Tests that need a server carry the marker `graph`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from world.shared_data import SHARED
from world.transformers_server import transformers_serve
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Matrices here have 32 columns: a second thread would wait for the first, and a second worker wants its core. By the
# environment, because tests start processes too.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Hundreds of processes of tests import kgedit, and workers rewrite the tests' assertions: once, and not each time anew,
# though images of containers often ask for that.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What is imported from here to the end of the collection stays, so looking for garbage in it finds none.
gc.disable()

# No property depends on how fast the machine is, and a run that fails can be repeated.
settings.register_profile("kgedit", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kgedit")


LONGEST = (
    "tests/graph/reading/",
    "tests/contracts/test_methods.py",
    "tests/readme/",
    "tests/graph/test_projection.py",
    "tests/graph/test_server.py",
    "tests/graph/test_kills.py",
    "tests/unit/llm/remote/test_real_server.py",
    "tests/unit/test_api_docs.py",
    "tests/packaging/",
    "tests/unit/llm/test_harness.py",
    "tests/unit/proxy/test_real_model_server.py",
)
"""What takes longest, as measured: begun first, so that none of it runs on alone when all else is done."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, once for a worker, because Playwright allows one at a time; a missing one is a failure."""
    from world.chromium import open_chromium

    with open_chromium() as found:
        yield found


@pytest.fixture(scope="session")
def transformers_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address, without /v1, of a real OpenAI-compatible server; it loads smollm2-135m once for all tests."""
    with transformers_serve(tmp_path_factory.mktemp("serve") / "serve.log") as address:
        yield address


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that `make test` gives."""
    parser.addoption(
        "--shared",
        choices=("if-there", "required"),
        default="if-there",
        help="whether tests on real data (../shared/data) are skipped where it is missing, or fail",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In a worker: the longest files first, then those of many tests, as xdist would have them."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        tests = Counter(item.path for item in items)
        items.sort(key=lambda item: _turn(item.nodeid, tests[item.path]))


def _turn(nodeid: str, tests: int) -> tuple[int, int]:
    for place, begins in enumerate(LONGEST):
        if nodeid.startswith(begins):
            return place, 0
    return len(LONGEST), -tests


def pytest_collection_finish() -> None:
    """Leave out of every later garbage collection what was imported and collected: a million things that stay."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_configure() -> None:
    """Do not wait for the disk, 8 ms a file on a busy machine: what tests write need not survive a power loss.

    That files are on the disk before they are renamed is tested in tests/unit/test_files.py.
    """
    pytest.MonkeyPatch().setattr(os, "fsync", lambda _: None)


def pytest_unconfigure() -> None:
    """Let the end of the process collect it: nanobind tells of everything that is left."""
    gc.unfreeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests on real data where there is none, or fail them if they were asked for."""
    if item.get_closest_marker("shared") is None or SHARED.is_dir():
        return
    said = f"needs real data in {SHARED}"
    if item.config.getoption("--shared") == "required":
        pytest.fail(f"{said}; without it: make test SHARED=if-there", pytrace=False)
    pytest.skip(said)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Two workers for all tests; one process for those that somebody names, which is quicker for a few."""
    if "PYTEST_XDIST_WORKER" in os.environ:  # a worker comes here too, and would start workers of its own
        return
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and config.option.numprocesses is None:
        config.option.numprocesses = 0 if config.option.usepdb or config.option.collectonly else 2
        config.option.dist = "loadfile" if config.option.numprocesses else "no"
        config.option.loadscopereorder = False  # pytest_collection_modifyitems has ordered them


TOGETHER = (("/graph/reading/",), ("/remote/test_real_server.py", "/proxy/test_real_model_server.py"))
"""Files of tests that ask the same servers, each dear to start."""


class OneWorkerForWorlds(LoadFileScheduling):
    """A file's tests on one worker, and so are files that ask the same servers."""

    def _split_scope(self, nodeid: str) -> str:
        groups = (group[0] for group in TOGETHER if any(part in nodeid for part in group))
        return next(groups, super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneWorkerForWorlds | None:
    """Only the whole suite is spread so; whoever chooses another way by -n and --dist gets it."""
    return OneWorkerForWorlds(config, log) if config.getvalue("dist") == "loadfile" else None
