"""Estimates, dry runs and costs of commands that use a language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli.formats import print_json, wants_json
from kgedit.cli.progress import say
from kgedit.errors import ModelError

if TYPE_CHECKING:
    from kgedit.llm.remote.client import ChatReplies, CostEstimate
    from kgedit.timesteps.verbalizing import Wanted
    from kgedit.timesteps.verbalizing.verbalizers import LocalVerbalizer, RemoteVerbalizer

ESTIMATE = click.option("--estimate", is_flag=True, help="Print the estimated cost, without calling the model.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Print the requests as JSON lines, without calling the model.")


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
    for reason, detail in asked.details.items():
        if reason in asked.failed:
            say(f"{reason}: the server says: {detail}")
