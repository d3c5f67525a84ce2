"""Shared setup of all tests: one thread for arithmetic, and real data that is either present or reported as missing.

Uses no network and no GPU. Tests that need a server carry the marker `graph`.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from world.shared_data import SHARED
from world.transformers_server import transformers_serve
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Matrices here have 32 columns: a second thread would wait for the first and take a core from the second worker. Set in
# the environment because tests also start processes.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# So would a second thread of DuckDB. That threads change no byte is tested with three on real slices
# (world/real_slices.py), and with two and 64 on a larger world (unit/store/test_many_threads.py).
os.environ.setdefault("KGEDIT_STORE_THREADS", "1")

# Hundreds of test processes import kgedit, and workers rewrite the tests' assertions. Write bytecode so that this is
# done only once, although container images often disable it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Imports up to the end of the collection stay alive, so garbage collection would find nothing in them.
gc.disable()

# No property depends on the machine's speed, and failing runs must be repeatable.
settings.register_profile("kgedit", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kgedit")


LONGEST = (
    "tests/graph/reading/test_export.py",
    "tests/contracts/test_methods.py",  # on a new machine the other worker first writes the archive of Java's classes
    "tests/graph/",
    "tests/readme/",
    "tests/unit/llm/remote/test_real_server.py",
    "tests/unit/spark/",
    "tests/unit/store/test_many_threads.py",
    "tests/unit/test_api_docs.py",
    "tests/unit/test_bit_flips.py",
    "tests/unit/llm/test_ability_tasks.py",
    "tests/unit/graph_memory/proxy/test_real_model_server.py",
    "tests/unit/timesteps/test_exports_of_real_slices.py",
    "tests/unit/runs/test_runner.py",
    "tests/unit/verbs/test_up.py",
    "tests/unit/cli/test_export_wikifactdiff.py",
    "tests/unit/cli/test_sweep.py",
    "tests/unit/docs/test_fresh_data.py",
    "tests/packaging/",
)
"""The slowest files, as measured; they start first so that none of them runs alone at the end."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, once per worker, because Playwright allows only one at a time; fails if it is missing."""
    from world.chromium import open_chromium

    with open_chromium() as found:
        yield found


@pytest.fixture(scope="session")
def transformers_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address, without /v1, of a real OpenAI-compatible server that loads smollm2-135m once for all tests."""
    with transformers_serve(tmp_path_factory.mktemp("serve") / "serve.log") as address:
        yield address


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option used by `make test`."""
    parser.addoption(
        "--shared",
        choices=("if-there", "required"),
        default="if-there",
        help="whether tests on real data (../shared/data) are skipped where it is missing, or fail",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In a worker: the slowest files first, then files with much work, so that the last ones are short."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        work = Counter[Path]()
        for item in items:
            work[item.path] += _SLOW if item.get_closest_marker("slow") else 1
        items.sort(key=lambda item: _turn(item.nodeid, work[item.path]))


_SLOW = 20
"""Work of a test that is marked slow (over a second), in other tests (on average under a tenth of one)."""


def _turn(nodeid: str, work: int) -> tuple[int, int]:
    for place, begins in enumerate(LONGEST):
        if nodeid.startswith(begins):
            return place, 0
    return len(LONGEST), -work


def pytest_collection_finish() -> None:
    """Exclude everything imported and collected, about a million objects, from later garbage collections."""
    gc.freeze()  # without a collection before, which takes a second and would free a few megabytes
    # At Python's 700 new objects, collections take 3 % of the suite's processor time, at 20,000 about 1 %.
    gc.set_threshold(20_000)
    gc.enable()
    # Python's own last collection frees them, because nanobind reports what remains. Before it, pytest collects as
    # often as something is freed, which takes a second each time with a million objects.
    atexit.register(gc.unfreeze)


def pytest_configure() -> None:
    """Skip fsync, which takes 8 ms per file on a busy machine; test files need not survive a power loss.

    tests/unit/test_files.py checks that files are synced before they are renamed.
    """
    pytest.MonkeyPatch().setattr(os, "fsync", lambda _: None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests on real data if it is missing, or fail them if it was required."""
    if item.get_closest_marker("shared") is None or SHARED.is_dir():
        return
    said = f"needs real data in {SHARED}"
    if item.config.getoption("--shared") == "required":
        pytest.fail(f"{said}; without it: make test SHARED=if-there", pytrace=False)
    pytest.skip(said)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Two workers for all tests; one process for files named on the command line, which is faster for a few."""
    if "PYTEST_XDIST_WORKER" in os.environ:  # this hook also runs in workers, which must not start further workers
        return
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and config.option.numprocesses is None:
        config.option.numprocesses = 0 if config.option.usepdb or config.option.collectonly else 2
        config.option.dist = "loadfile" if config.option.numprocesses else "no"
        config.option.loadscopereorder = False  # pytest_collection_modifyitems has ordered them


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report which parsers of JSON dumps were tested."""
    if find_spec("kgedit_native") is None:
        terminalreporter.write_line(
            "kgedit-native is not installed (make native): of JSON, only Python's parser was tested."
        )


TOGETHER = (
    ("tests/graph/",),
    ("/remote/test_real_server.py", "/proxy/test_real_model_server.py"),
    ("/test_exports_of_real_slices.py", "/timesteps/test_exports_by_bucket.py", "/timesteps/test_changes_only.py"),
)
"""Groups of test files that use the same servers or exports, which are expensive: those of `tests/graph` share five
Neo4j servers, each of which would start again in a second worker.
"""


class OneWorkerForWorlds(LoadFileScheduling):
    """Assigns all tests of a file to one worker, and files of the same group too."""

    def _split_scope(self, nodeid: str) -> str:
        groups = (group[0] for group in TOGETHER if any(part in nodeid for part in group))
        return next(groups, super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneWorkerForWorlds | None:
    """Only for the whole suite; other choices of -n and --dist are respected."""
    return OneWorkerForWorlds(config, log) if config.getvalue("dist") == "loadfile" else None
