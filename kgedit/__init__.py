"""kgedit: turn Wikidata's own history into the test and the cure for stale language models.

Importing this package imports none of its parts: each name below is looked up when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kgedit.analysis.runs import Run
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
    from kgedit.verbs.build_qaedit import build_qaedit
    from kgedit.verbs.describe import describe, describe_page
    from kgedit.verbs.edited_model import EditedModel
    from kgedit.verbs.editing import ask, edit, load_edited, load_model, make_case
    from kgedit.verbs.explore import explore_server
    from kgedit.verbs.home import Home
    from kgedit.verbs.publish import Leaderboard, leaderboard, publish, submit
    from kgedit.verbs.report import Report, report
    from kgedit.verbs.run_edit import read_run, run, scores
    from kgedit.verbs.stats import build_statistics
    from kgedit.verbs.sweep import Sweep, sweep
    from kgedit.verbs.teach import teach_model
    from kgedit.verbs.trace import trace_model
    from kgedit.verbs.up import Outcome, up

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
    "ask",
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
    "teach_model",
    "trace_model",
    "up",
]

_MODULES = {
    "kgedit.analysis.runs": ("Run",),
    "kgedit.verbs.publish": ("Leaderboard", "leaderboard", "publish", "submit"),
    "kgedit.verbs.describe": ("describe", "describe_page"),
    "kgedit.verbs.edited_model": ("EditedModel",),
    "kgedit.verbs.editing": ("ask", "edit", "load_edited", "load_model", "make_case"),
    "kgedit.verbs.explore": ("explore_server",),
    "kgedit.verbs.home": ("Home",),
    "kgedit.verbs.up": ("Outcome", "up"),
    "kgedit.verbs.build_qaedit": ("build_qaedit",),
    "kgedit.verbs.report": ("Report", "report"),
    "kgedit.verbs.run_edit": ("read_run", "run", "scores"),
    "kgedit.verbs.sweep": ("Sweep", "sweep"),
    "kgedit.verbs.stats": ("build_statistics",),
    "kgedit.verbs.trace": ("trace_model",),
    "kgedit.verbs.teach": ("teach_model",),
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
