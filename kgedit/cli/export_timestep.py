"""``kgedit export-timestep``: exports the changes between two snapshots as questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kgedit.cli.formats import print_result, result_format
from kgedit.cli.progress import say, steps
from kgedit.cli.verb_command import Given, verb_command
from kgedit.resources import home as default_home
from kgedit.verbs.export_timestep import ExportAll, ExportTimestep

_STREAM = click.option(
    "--all",
    "stream",
    is_flag=True,
    help="Instead of two dates: the timesteps of all neighbouring snapshots, linked.",
)


@verb_command(
    ExportTimestep,
    ExportAll,
    name="export-timestep",
    optional=("older", "newer"),
    more=(_STREAM, result_format),
    examples=(
        "kgedit export-timestep --from 2021-01-04 --to 2023-02-27",
        "kgedit export-timestep --from 2021-01-04 --to 2023-02-27 --kinds update --out updates",
        "kgedit export-timestep --from 2021-01-04 --to 2023-02-27 --profile wikifactdiff",
        "kgedit export-timestep --all --engine store",
    ),
)
def export_timestep(given: Given, *, stream: bool) -> None:
    """Export one timestep or all of them, and print the counts."""
    home = default_home()
    older, newer = (given.values[name] for name in ("older", "newer"))
    if stream and not older and not newer:
        everything = given.make(
            ExportAll, on_timestep=lambda name, kept: say(f"{name}: {'kept' if kept else 'written'}")
        )
        with steps("Exporting"):
            made = everything.run(home)
        _tell_stream(made.manifest)
        print_result({"folder": made.folder, "stream": made.manifest}, text=made.folder)
    elif older and newer and not stream:
        with steps("Exporting"):
            timestep = given.make(ExportTimestep).run(home)
        _tell_updates(timestep.manifest) if timestep.manifest["profile"] == "wikifactdiff" else _tell(timestep.manifest)
        print_result({"folder": timestep.folder, "timestep": timestep.manifest}, text=timestep.folder)
    else:
        raise click.UsageError("Give --from and --to, or --all.")


def _tell_stream(manifest: dict[str, Any]) -> None:
    say(f"{'timestep':<18}{'edits':>8}{'edited again':>14}{'probes':>8}{'expire later':>14}")
    for row in manifest["timesteps"]:
        counts = f"{row['edits']:>8,}{row['edited_again']:>14,}{row['probes']:>8,}{row['expiring_probes']:>14,}"
        say(f"{row['timestep']:<18}{counts}")


def _tell(manifest: dict[str, Any]) -> None:
    funnel = manifest["funnel"]
    say(f"{funnel['changed']:>8,} changed subjects and properties (engine: {manifest['engine']})")
    for reason, count in funnel["dropped"].items():
        if count:
            say(f"{-count:>8,} {reason}")
    cases = ", ".join(f"{count} {tag}" for tag, count in manifest["cases"].items()) or "none"
    say(f"{funnel['kept']:>8,} cases ({cases})")
    kinds = ", ".join(f"{count} {kind}" for kind, count in manifest["kinds"].items()) or "none"
    say(f"         kinds of change: {kinds}")
    probes = ", ".join(f"{count} by {basis}" for basis, count in manifest["locality"].items()) or "none"
    without = manifest["without_locality"]
    probes += f", {without:,} cases without" if without else ""
    say(f"         locality: {probes}; two-hop questions: {manifest['two_hops']['asked']}")
    if "without_template" in manifest:
        missing = ", ".join(f"{name} {count:,}" for name, count in manifest["without_template"].items()) or "none"
        say(f"         properties without a template in the language: {missing}")
        say(f"         cases with a label in another language: {manifest['labels_in_other_languages']:,}")
    if "crosslingual" in manifest:
        other = manifest["crosslingual"]
        without = f", {other['cases_without']:,} cases without" if other["cases_without"] else ""
        say(f"         questions in the language {other['language']}: {other['asked']:,}{without}")
    if "chains" in manifest:
        asked = manifest["chains"]["asked"]
        lengths = ", ".join(f"{count:,} of {hops} facts" for hops, count in asked.items()) or "none"
        say(f"         chains: {lengths}")
    _tell_left_out(manifest["final_filters"])
    _tell_specificity(manifest, manifest.get("page_views", {}))


def _tell_specificity(manifest: Mapping[str, Any], page_views: Mapping[str, Any]) -> None:
    """Print the number of cases with known views and counts, if requested."""
    if "specificity" in manifest:
        months, others = len(page_views.get("months", ())), page_views.get("files left out", 0)
        if months or others:
            say(f"         page views of {months} months; {others} files are not of the year before the newer snapshot")
        known = ", ".join(f"{name} {count:,}" for name, count in manifest["specificity"].items()) or "none"
        say(f"         cases with views and counts: {known}")


def _tell_left_out(final_filters: Mapping[str, Any]) -> None:
    """Print the number of questions that a final filter removed, if any."""
    for axis, counts in final_filters.items():
        if counts["failed"]:
            reasons = ", ".join(f"{reason}: {count:,}" for reason, count in counts["failed"].items())
            say(f"         left out of {counts['judged']:,} {axis} questions: {reasons}")


def _tell_updates(manifest: dict[str, Any]) -> None:
    if "changed_statements" in manifest:  # absent from kept timesteps of earlier versions
        found = manifest["changed_statements"]["subjects and properties"]
        say(f"{found:>8,} subjects and properties with a changed statement (engine: {manifest['engine']})")
    for side, which in zip(manifest["preprocessing"].values(), ("older", "newer"), strict=True):
        say(f"{side['read']:>8,} statements of touched items in the {which} snapshot, {side['kept']:,} of them facts")
    funnel = manifest["funnel"]
    say(f"{funnel['changed']:>8,} changed subjects and relations")
    for reason, count in funnel["dropped"].items():
        say(f"{-count:>8,} {reason}")
    scenarios = ", ".join(f"{count} {name}" for name, count in manifest["scenarios"].items() if count) or "none"
    say(f"{funnel['kept']:>8,} updates ({scenarios})")
    say(f"         cases for editing: {sum(manifest['cases'].values())}; locality: {manifest['locality']}")
    _tell_left_out(manifest["final_filters"])
    _tell_specificity(manifest, manifest["popularity"])
