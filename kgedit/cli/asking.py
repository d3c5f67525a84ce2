"""Options of commands that use a language model to word text: model, server and budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli.formats import print_json, wants_json
from kgedit.cli.progress import say
from kgedit.errors import ModelError

if TYPE_CHECKING:
    from kgedit.llm.remote.client import ChatReplies, CostEstimate
    from kgedit.timesteps.verbalizing.verbalizers import LocalVerbalizer, RemoteVerbalizer
    from kgedit.timesteps.verbalizing.wanted import Wanted

AXES = ("update", "rephrase", "personas", "mhop", "locality")
"""Axes of kgedit.timesteps.verbalizing.wanted, which a command does not import before it runs."""

_FILE = click.Path(dir_okay=False, path_type=Path)

COST_OPTIONS = (
    click.option("--budget", metavar="USD", type=click.FloatRange(min=0), help="Stop before it costs more."),
    click.option("--prices", metavar="FILE", type=_FILE, help="YAML of prices, instead of the shipped one."),
    click.option("--workers", default=4, show_default=True, type=click.IntRange(1, 256), help="Concurrent calls."),
    click.option("--attempts", default=6, show_default=True, type=click.IntRange(min=1), help="Attempts per call."),
    click.option("--timeout", default=60.0, show_default=True, type=click.FloatRange(min=0, min_open=True),
                 help="Timeout of one attempt in seconds."),
)  # fmt: skip
"""Options for budget and reasoning effort, for every command that calls a server."""

_SERVER = (
    click.option("--base-url", metavar="URL", help="The server, with /v1. Default: OpenAI's."),
    click.option("--key-variable", metavar="VARIABLE", default="OPENAI_API_KEY", show_default=True,
                 help="Environment variable that holds the server's key."),
    click.option("--structured/--no-structured", default=None,
                 help="Request replies that follow a JSON schema. Default: if the server supports it."),
    click.option("--batch", is_flag=True, help="Use the Batch API: cheaper, within a day; resumes if interrupted."),
    click.option("--poll", default=30.0, show_default=True, type=click.FloatRange(min=0),
                 help="With --batch: seconds between two status checks."),
    click.option("--tokenizer", metavar="NAME",
                 help="For --estimate: local model with the same tokenizer; else four characters are a token."),
    *COST_OPTIONS,
    click.option("--device", default="auto", metavar="NAME", help="For local models: auto, cpu, cuda. Default auto."),
    click.option("--prompts", metavar="FOLDER", type=click.Path(path_type=Path, exists=True, file_okay=False),
                 help="Prompt files of your own, like those in prompts/verbalizer."),
)  # fmt: skip


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for model, server and budget to a command."""
    for option in reversed(_SERVER):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Values of the options; the fields are named after them."""

    base_url: str | None
    key_variable: str
    structured: bool | None
    batch: bool
    poll: float
    budget: float | None
    prices: Path | None
    tokenizer: str | None
    workers: int
    attempts: int
    timeout: float
    device: str
    prompts: Path | None

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
            prices=self.prices or SHIPPED,
            budget=self.budget,
            tokenizer=self.tokenizer,
            prompts=self.prompts,
        )

    def local(self, model: str) -> LocalVerbalizer:
        """Model on this machine."""
        from kgedit.timesteps.verbalizing.verbalizers import LocalVerbalizer

        return LocalVerbalizer(model=model, device=self.device, prompts=self.prompts)


def one_verbalizer(model: str | None, local: str | None, options: ServerOptions) -> RemoteVerbalizer | LocalVerbalizer:
    """The verbalizer that was named.

    Raises:
        ModelError: if none or both are named.
    """
    if bool(model) == bool(local):
        raise ModelError(
            "Name one model: --model NAME for one of OpenAI's, with --base-url URL for one of any compatible server, "
            "or --local NAME for a model on this machine."
        )
    return options.remote(model) if model else options.local(str(local))


def tell_without_asking(
    verbalizer: RemoteVerbalizer | LocalVerbalizer, wanted: Callable[[], Sequence[Wanted]], *, estimate: bool
) -> None:
    """Print the estimated cost, or else the requests.

    Raises:
        ModelError: if the model is not behind a server.
    """
    from kgedit.timesteps.verbalizing.verbalizers import RemoteVerbalizer

    if not isinstance(verbalizer, RemoteVerbalizer):
        raise ModelError("--estimate and --dry-run are about a server's model: give --model NAME.")
    if estimate:
        found = verbalizer.estimate(wanted())
        print_json(estimate_document(found)) if wants_json() else tell_estimate(found)
        return
    for line in verbalizer.dry_run(wanted()):
        click.echo(line)


def estimate_document(estimate: CostEstimate) -> dict[str, Any]:
    """Estimated cost for JSON; `dollars` is null without a price."""
    return {
        "calls": estimate.requests - estimate.cached,
        "cached": estimate.cached,
        "prompt_tokens": estimate.prompt_tokens,
        "new_tokens": estimate.new_tokens,
        "counted_by_tokenizer": estimate.exact,
        "dollars": estimate.dollars,
    }


def tell_estimate(estimate: CostEstimate) -> None:
    """Print the estimated cost."""
    counted = "counted by the tokenizer" if estimate.exact else "by four characters a token, which may be far off"
    calls = estimate.requests - estimate.cached
    click.echo(f"calls: {calls:,} ({estimate.cached:,} more are in the cache)")
    click.echo(f"tokens: {estimate.prompt_tokens:,} in, {estimate.new_tokens:,} out, {counted}")
    money = "unknown: no price, give --prices FILE" if estimate.dollars is None else f"${estimate.dollars:.4f}"
    click.echo(f"cost: {money}")


def tell_asked(asked: ChatReplies, *, done: str = "Asked", what: str = "requests", failed: str = "No reply") -> None:
    """Print the cost of the requests.

    Args:
        done: Verb for what was done with them.
        what: Kind of requests, in the plural.
        failed: Meaning of a failed request.
    """
    cost = "" if asked.dollars is None else f", ${asked.dollars:.4f}"
    say(
        f"{done}: {asked.requests:,} distinct {what}, {asked.cached:,} of them from the cache; {asked.calls:,} calls, "
        f"{asked.prompt_tokens:,} tokens in, {asked.new_tokens:,} out{cost}"
    )
    for trouble, counts in (("Tried again or given up", asked.retried), (failed, asked.failed)):
        if counts:
            say(f"{trouble}: " + ", ".join(f"{reason}: {count:,}" for reason, count in counts.items()))
