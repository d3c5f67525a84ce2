"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Le

from kgedit.errors import ModelError
from kgedit.verbs.options import AnyFile, ExistingFolder, OneOf, flag, options, python_only

if TYPE_CHECKING:
    from kgedit.timesteps.verbalizing.verbalizers import LocalVerbalizer, RemoteVerbalizer

TIMESTEP_FORMS = "a name in the home's timesteps folder, two dates (2021-01-04..2023-02-27), or a folder"
"""Accepted forms of a timestep, for help texts."""

TRACKERS = ("trackio", "wandb")
"""Services that a run can log its metrics to."""


@options
class DeviceOptions:
    """Where a local model runs."""

    device: str = flag(
        default="auto", group="Machine", metavar="NAME", help="auto, cpu, cuda, cuda:N, cuda:all or mps."
    )
    dtype: str = flag(
        default="auto", group="Machine", rare=True, metavar="NAME", help="auto, float32, bfloat16 or float16."
    )


AXES = ("update", "rephrase", "personas", "mhop", "locality")
"""Axes of kgedit.timesteps.verbalizing (tested), which no command imports before it runs."""

Axis = Annotated[str, OneOf(AXES)]


@options
class CostOptions:
    """Budget and effort of calls to a model's server."""

    budget: float | None = flag(default=None, ge=0, group="Model", metavar="USD", help="Stop before it costs more.")
    prices: AnyFile | None = flag(
        default=None,
        group="Model",
        rare=True,
        help="YAML of prices, instead of the built-in one.",
    )
    workers: Annotated[int, Le(256)] = flag(default=4, ge=1, group="Model", rare=True, help="Concurrent calls.")
    attempts: int = flag(default=6, ge=1, group="Model", rare=True, help="Attempts per call.")
    timeout: float = flag(default=60.0, gt=0, group="Model", rare=True, help="Timeout of one attempt in seconds.")


@options
class ServerOptions(CostOptions):
    """A language model that words text: behind a server, or on this machine."""

    base_url: str | None = flag(
        default=None, group="Model", metavar="URL", help="The server, with /v1. Default: OpenAI's."
    )
    key_variable: str = flag(
        default="OPENAI_API_KEY",
        group="Model",
        metavar="VARIABLE",
        help="Environment variable that holds the server's key.",
    )
    structured: bool | None = flag(
        "--structured/--no-structured",
        default=None,
        group="Model",
        rare=True,
        help="Request replies that follow a JSON schema. Default: if the server supports it.",
    )
    batch: bool = flag(
        default=False,
        group="Model",
        help="Use the Batch API: cheaper, within a day; resumes if interrupted.",
    )
    poll: float = flag(
        default=30.0, ge=0, group="Model", rare=True, help="With --batch: seconds between two status checks."
    )
    tokenizer: str | None = flag(
        default=None,
        group="Model",
        rare=True,
        metavar="NAME",
        help="For --estimate: local model with the same tokenizer; else four characters count as a token.",
    )
    device: str = flag(default="auto", group="Machine", metavar="NAME", help="For local models: auto, cpu or cuda.")
    prompts: ExistingFolder | None = flag(
        default=None, group="Model", rare=True, help="Folder of your prompt files, like those in prompts/verbalizer."
    )

    def remote(self, model: str, url: str | None = None) -> RemoteVerbalizer:
        """Model behind a server.

        Args:
            url: Address of its server; None means --base-url.
        """
        from kgedit.llm.remote.batches import BatchWork
        from kgedit.llm.remote.client import Effort
        from kgedit.llm.remote.prices import SHIPPED
        from kgedit.llm.remote.server import OPENAI, ChatServer
        from kgedit.timesteps.verbalizing.verbalizers import RemoteVerbalizer

        where = (url or self.base_url or OPENAI).rstrip("/")
        return RemoteVerbalizer(
            model=model,
            server=ChatServer(url=where, key_variable=self.key_variable, timeout=self.timeout),
            structured=self.structured,
            batch=self.batch,
            batch_work=BatchWork(poll=self.poll),
            effort=Effort(workers=self.workers, attempts=self.attempts),
            prices=SHIPPED if self.prices is None else Path(self.prices),
            budget=self.budget,
            tokenizer=self.tokenizer,
            prompts=self.prompts_folder,
        )

    def local_model(self, model: str) -> LocalVerbalizer:
        """Model on this machine."""
        from kgedit.timesteps.verbalizing.verbalizers import LocalVerbalizer

        return LocalVerbalizer(model=model, device=self.device, prompts=self.prompts_folder)

    @property
    def prompts_folder(self) -> Path | None:
        """Folder of the user's prompt files; None means the built-in ones."""
        return None if self.prompts is None else Path(self.prompts)


@options
class OneVerbalizer(ServerOptions):
    """The language model that words text."""

    model: str | None = flag(
        default=None,
        group="Model",
        metavar="NAME",
        help="Model of an OpenAI-compatible server, by its name there.",
    )
    local: str | None = flag(
        default=None, group="Model", metavar="NAME", help="Instead, a local model; see --model of run-edit."
    )

    def verbalizer(self) -> RemoteVerbalizer | LocalVerbalizer:
        """The model that was named.

        Raises:
            ModelError: if none or both are named.
        """
        if bool(self.model) == bool(self.local):
            raise ModelError(
                "Name one model: --model NAME for one of OpenAI's, with --base-url URL for one of any compatible "
                "server, or --local NAME for a model on this machine."
            )
        return self.remote(self.model) if self.model else self.local_model(str(self.local))


@options
class InHome:
    """The home of a function that is no method of one."""

    home: Any = python_only(
        default=None, help="The home, as an object or its folder; None means `$KGEDIT_HOME`, else `./kgedit-data`."
    )
