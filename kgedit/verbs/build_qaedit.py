"""Builds a QAEdit file from question-answering sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BeforeValidator

from kgedit import __version__
from kgedit.errors import TimestepError, names_extra
from kgedit.progress import Advance
from kgedit.resources import cache, utf8_folder
from kgedit.resources import home as default_home
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.options import (
    AnyFile,
    AnyFolder,
    Day,
    ManyPaths,
    OneOf,
    Verb,
    argument,
    flag,
    function_of,
    many,
    options,
    python_only,
)
from kgedit.verbs.shared_options import CostOptions

if TYPE_CHECKING:
    import datetime

    import pyarrow as pa

    from kgedit.llm.contexts import Instructions
    from kgedit.llm.remote.client import ChatClient, CostEstimate, Effort
    from kgedit.llm.remote.server import ChatServer
    from kgedit.timesteps.qaedit import BuiltRows, LocalityDraw
    from kgedit.timesteps.qaedit.asking import Part
    from kgedit.timesteps.qaedit.question_rules import Names
    from kgedit.timesteps.qaedit.sources import QuestionFile


PARTS = ("subject", "rephrase", "category")
"""Tasks that a model can do (kgedit.timesteps.qaedit.asking.PARTS; tested)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHelp:
    """A language model that does part of the work.

    Attributes:
        model: Name of the model on its server.
        parts: Tasks of the model: subject, rephrase, category.
        server: Server of the model.
        effort: Concurrency and retries; None means the defaults.
        prices: Table of prices; None means the built-in one.
        budget: Maximum cost in dollars; None means no limit.
        tokenizer: Local model whose tokenizer counts tokens for an estimate; None counts characters.
        prompts: Folder with subject.txt, rephrase.txt or category.txt that replace the built-in ones; None means those.
    """

    model: str
    parts: tuple[Part, ...]
    server: ChatServer
    effort: Effort | None = None
    prices: Path | None = None
    budget: float | None = None
    tokenizer: str | None = None
    prompts: Path | None = None

    def instructions(self) -> Instructions:
        """Instructions for the model.

        Raises:
            ModelError: if the folder contains any other file.
        """
        from kgedit.llm.contexts import read_instructions

        return read_instructions("qaedit", self.prompts)

    def client(self) -> ChatClient:
        """Client of the server; replies are stored in the user's cache."""
        from kgedit.llm.remote.client import ChatClient
        from kgedit.llm.remote.prices import SHIPPED, price_of, read_prices
        from kgedit.llm.remote.requests import ReplyCache

        price = price_of(self.model, read_prices(self.prices or SHIPPED))
        replies = ReplyCache(cache() / "replies")
        return ChatClient(self.server, replies, model=self.model, effort=self.effort, price=price, budget=self.budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class QaeditFile:
    """A built file.

    Attributes:
        path: Path of the file.
        provenance: Content of the JSON file next to it.
    """

    path: Path
    provenance: dict[str, Any]


if TYPE_CHECKING:
    Helper = ModelHelp
else:  # its fields are of types that are imported for type checkers only
    Helper = Any


@options
class HelperOptions(CostOptions):
    """A language model behind a server that does part of the work."""

    model: str | None = flag(
        default=None,
        group="Model",
        metavar="NAME",
        help="Model of an OpenAI-compatible server that does --model-does.",
    )
    parts: Annotated[Sequence[Annotated[str, OneOf(PARTS)]], BeforeValidator(many)] = flag(
        "--model-does",
        default=PARTS[:2],
        group="Model",
        help="A task for the model; rules do the rest. Repeat for several.",
    )
    model_url: str | None = flag(
        default=None, group="Model", metavar="URL", help="The server, with /v1. Default: OpenAI's."
    )
    model_key: str = flag(
        default="OPENAI_API_KEY",
        group="Model",
        metavar="VARIABLE",
        help="Environment variable that holds the server's key.",
    )
    tokenizer: str | None = flag(
        default=None,
        group="Model",
        rare=True,
        metavar="NAME",
        help="For --estimate: local model with the same tokenizer; else four characters count as a token.",
    )
    prompts: AnyFolder | None = flag(
        default=None,
        group="Model",
        rare=True,
        help="Your own subject.txt, rephrase.txt or category.txt, instead of those under prompts/qaedit.",
    )

    def helper(self) -> ModelHelp | None:
        """The model; None if none is named."""
        if not self.model:
            return None
        from kgedit.llm.remote.client import Effort
        from kgedit.llm.remote.server import OPENAI, ChatServer

        url = (self.model_url or OPENAI).rstrip("/")
        return ModelHelp(
            model=self.model,
            parts=cast("tuple[Part, ...]", tuple(self.parts)),
            server=ChatServer(url=url, key_variable=self.model_key, timeout=self.timeout),
            effort=Effort(workers=self.workers, attempts=self.attempts),
            prices=None if self.prices is None else Path(self.prices),
            budget=self.budget,
            tokenizer=self.tokenizer,
            prompts=None if self.prompts is None else Path(self.prompts),
        )


@options
class BuildQaedit(Verb[QaeditFile]):
    """Build edits from question-answering sets like QAEdit.

    SOURCES are NQ-open (JSON Lines), TriviaQA (JSON), SimpleQA (CSV), or any JSON or CSV rows with a question and an
    answer, recognised by content. Each question gets a subject (a part of it), a rephrasing, a topic and, with
    --locality, questions that the edit must not change: by rules, or by a model. Rows record the rule that created each
    part. A file for `run-edit --edits` and EasyEdit is written to --out, and its provenance next to it
    (.provenance.json).
    """

    sources: ManyPaths = argument(kw_only=False, help="Files of questions and answers.")
    out: AnyFile = flag(kw_only=False, group="Output", help="JSON file to write.")
    names: Annotated[Sequence[Day], BeforeValidator(many)] = flag(
        default=(),
        help="Snapshots whose labels and aliases are looked for in the questions; repeat, or separate by commas. "
        "Default: rules find subjects.",
    )
    home: AnyFolder | None = python_only(
        default=None, help="Folder of the snapshots; None means `$KGEDIT_HOME`, else `./kgedit-data`."
    )
    locality: AnyFile | None = flag(
        default=None, help="File from whose questions each row's locality questions are drawn."
    )
    locality_questions: int = flag(default=1, ge=1, help="Number of locality questions per row.")
    seed: int = flag(default=0, help="Seed for drawing the locality questions.")
    limit: int | None = flag(default=None, ge=1, help="Maximum number of rows to read from each source.")
    overwrite: bool = flag(default=False, group="Output", help="Replace the file.")
    model: Helper | None = python_only(default=None, help="Model that does part of the work; None means rules alone.")
    progress: Advance | None = python_only(
        default=None, help="Called with the number of questions that a model has answered, and their total."
    )

    def run(self) -> QaeditFile:
        """Build the edits.

        Raises:
            TimestepError: if a source cannot be read, yields no row, or `out` exists.
            StoreError: if a snapshot is not loaded.
            ModelError: if the model cannot be queried.
        """
        from kgedit.timesteps.qaedit import build_rows, refuse_to_replace, word_by_rules, write_rows
        from kgedit.timesteps.qaedit.asking import ask_parts
        from kgedit.timesteps.qaedit.question_rules import SubjectFinder

        path, model = Path(self.out), self.model
        refuse_to_replace(path, overwrite=self.overwrite)
        read = _read(self.sources, self.limit)
        pool = _read([self.locality], None) if self.locality is not None else None
        finder = SubjectFinder(_names(self.names, self.home, read.questions))
        worded = list(word_by_rules(read.questions, finder))
        of_model: dict[str, Any] = {}
        if model is not None:
            texts = read.questions["question"].to_pylist()
            instructions = model.instructions()
            asked = ask_parts(
                model.client(),
                model.parts,
                texts,
                worded,
                model=model.model,
                instructions=instructions,
                progress=self.progress,
            )
            worded = list(asked.worded)
            of_model = _told(model, asked.kept, instructions)
        built = build_rows(read.questions, worded, _draw(pool, size=self.locality_questions, seed=self.seed))
        _refuse_none(built, self.sources)
        settings = {"seed": self.seed, "limit": self.limit, "locality_questions": self.locality_questions}
        provenance = _provenance(read, pool, self.names, settings=settings, built=built) | of_model
        return QaeditFile(path=path, provenance=write_rows(path, built.rows, provenance))


build_qaedit = function_of(BuildQaedit)


@names_extra
def estimate_qaedit(
    sources: Sequence[str | Path], model: ModelHelp, *, limit: int | None = None
) -> dict[Part, CostEstimate]:
    """Estimate the cost of the model's part of the work; no server is called.

    Raises:
        TimestepError: if a source cannot be read.
    """
    from kgedit.llm.remote.prices import ByCharacters, ByTokenizer
    from kgedit.timesteps.qaedit.asking import estimate_parts

    texts = _read(sources, limit).questions["question"].to_pylist()
    counter = ByTokenizer(model.tokenizer) if model.tokenizer else ByCharacters()
    return estimate_parts(
        model.client(), model.parts, texts, model=model.model, instructions=model.instructions(), counter=counter
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """Sources that were read, with each question once over all of them."""

    files: tuple[QuestionFile, ...]
    questions: pa.Table
    repeated: int


def _read(paths: Sequence[str | Path], limit: int | None) -> _Read:
    import pyarrow as pa

    from kgedit.timesteps.qaedit import distinct
    from kgedit.timesteps.qaedit.sources import read_questions

    files = tuple(read_questions(Path(path), limit=limit) for path in paths)
    if not files:
        raise TimestepError("No source is given. Name a file of questions and answers.")
    questions, repeated = distinct(pa.concat_tables(file.questions for file in files))
    return _Read(files, questions, repeated)


def _names(days: Sequence[str | datetime.date], home: str | Path | None, questions: pa.Table) -> Names | None:
    if not days:
        return None
    from kgedit.store.snapshots import open_snapshot
    from kgedit.timesteps.qaedit.question_rules import read_names

    folder = default_home() if home is None else utf8_folder(home)
    return read_names([open_snapshot(folder, read_date(day)) for day in days], questions["question"])


def _draw(pool: _Read | None, *, size: int, seed: int) -> LocalityDraw:
    from kgedit.timesteps.qaedit import LocalityDraw, LocalityQuestion

    columns = [pool.questions[name].to_pylist() for name in ("question", "answer")] if pool else [[], []]
    return LocalityDraw([LocalityQuestion(*pair) for pair in zip(*columns, strict=True)], size=size, seed=seed)


def _refuse_none(built: BuiltRows, sources: Sequence[str | Path]) -> None:
    if not built.rows:
        reasons = ", ".join(f"{reason}: {count:,}" for reason, count in built.left_out.items()) or "no question"
        raise TimestepError(f"No question of {', '.join(map(str, sources))} became an edit: {reasons}.")


def _provenance(
    read: _Read, pool: _Read | None, names: Sequence[str | datetime.date], *, settings: dict[str, Any], built: BuiltRows
) -> dict[str, Any]:
    from kgedit.timesteps.qaedit import FORMAT, category_counts, rules_hash

    repeated = {"the same question twice": read.repeated} if read.repeated else {}
    return {
        "format": FORMAT,
        "kgedit": __version__,
        "rules": rules_hash(),
        **settings,
        "names": [str(day)[:10] for day in names],
        "sources": [file.provenance() for file in read.files],
        "locality": None if pool is None else pool.files[0].provenance(),
        "left_out": dict(sorted((repeated | dict(built.left_out)).items())),
        "done": built.done,
        "categories": category_counts(built.rows),
    }


def _told(model: ModelHelp, kept: Mapping[str, int], instructions: Instructions) -> dict[str, Any]:
    """Work of a model, for the provenance, without its cost, which depends on the cache."""
    record = {"name": model.model, "url": model.server.url, "parts": list(model.parts), "kept": dict(kept)}
    own = {name: instructions.sha256(name) for name in instructions.own}
    return {"model": record | ({"prompts": own} if own else {})}
