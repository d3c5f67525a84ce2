"""kgedit: turn Wikidata's own history into the test and the cure for stale language models.

Importing this package imports none of its parts: each name below is looked up when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kgedit.analysis.runs import Run
    from kgedit.api.boards import Leaderboard, leaderboard, submit
    from kgedit.api.describing import describe, describe_page
    from kgedit.api.edited_model import EditedModel
    from kgedit.api.editing import edit, load_edited, load_model, make_case
    from kgedit.api.exploring import explore_server
    from kgedit.api.home import Home
    from kgedit.api.one_command import Outcome, up
    from kgedit.api.publishing import publish
    from kgedit.api.qaedit import build_qaedit
    from kgedit.api.reports import Report, report
    from kgedit.api.running import read_run, run, scores
    from kgedit.api.statistics import build_statistics
    from kgedit.api.sweeping import Sweep, sweep
    from kgedit.api.tracing import trace_model
    from kgedit.errors import (
        DamagedFileError,
        GraphError,
        KgeditError,
        MissingExtraError,
        ModelError,
        SourceError,
        SpecError,
        StoreError,
        SubmissionError,
        TimestepError,
        UnknownNameError,
    )
    from kgedit.llm.language_model import LanguageModel
    from kgedit.records.cases import Case, Fact, KnownFact, Probe
    from kgedit.store.scope import Scope
    from kgedit.store.snapshots import Snapshot
    from kgedit.timesteps.audit import Audit
    from kgedit.timesteps.stream import Stream
    from kgedit.timesteps.timestep import Timestep

__version__ = "0.1.0"

__all__ = [
    "Audit",
    "Case",
    "DamagedFileError",
    "EditedModel",
    "Fact",
    "GraphError",
    "Home",
    "KgeditError",
    "KnownFact",
    "LanguageModel",
    "Leaderboard",
    "MissingExtraError",
    "ModelError",
    "Outcome",
    "Probe",
    "Report",
    "Run",
    "Scope",
    "Snapshot",
    "SourceError",
    "SpecError",
    "StoreError",
    "Stream",
    "SubmissionError",
    "Sweep",
    "Timestep",
    "TimestepError",
    "UnknownNameError",
    "__version__",
    "build_qaedit",
    "build_statistics",
    "describe",
    "describe_page",
    "edit",
    "explore_server",
    "leaderboard",
    "load_edited",
    "load_model",
    "make_case",
    "publish",
    "read_run",
    "report",
    "run",
    "scores",
    "submit",
    "sweep",
    "trace_model",
    "up",
]

_MODULES = {
    "kgedit.analysis.runs": ("Run",),
    "kgedit.api.boards": ("Leaderboard", "leaderboard", "submit"),
    "kgedit.api.describing": ("describe", "describe_page"),
    "kgedit.api.edited_model": ("EditedModel",),
    "kgedit.api.editing": ("edit", "load_edited", "load_model", "make_case"),
    "kgedit.api.exploring": ("explore_server",),
    "kgedit.api.home": ("Home",),
    "kgedit.api.one_command": ("Outcome", "up"),
    "kgedit.api.publishing": ("publish",),
    "kgedit.api.qaedit": ("build_qaedit",),
    "kgedit.api.reports": ("Report", "report"),
    "kgedit.api.running": ("read_run", "run", "scores"),
    "kgedit.api.statistics": ("build_statistics",),
    "kgedit.api.sweeping": ("Sweep", "sweep"),
    "kgedit.api.tracing": ("trace_model",),
    "kgedit.timesteps.audit": ("Audit",),
    "kgedit.timesteps.stream": ("Stream",),
    "kgedit.timesteps.timestep": ("Timestep",),
    "kgedit.errors": (
        "TimestepError",
        "DamagedFileError",
        "GraphError",
        "KgeditError",
        "MissingExtraError",
        "ModelError",
        "SourceError",
        "SpecError",
        "StoreError",
        "SubmissionError",
        "UnknownNameError",
    ),
    "kgedit.llm.language_model": ("LanguageModel",),
    "kgedit.records.cases": ("Case", "Fact", "KnownFact", "Probe"),
    "kgedit.store.scope": ("Scope",),
    "kgedit.store.snapshots": ("Snapshot",),
}
"""Where each name is defined."""


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            found = globals()[name] = getattr(import_module(module), name)
            return found
    raise AttributeError(f"module 'kgedit' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
