"""``kgedit export-timestep``: exports the changes between two snapshots as questions."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from kgedit.cli import completion
from kgedit.cli.dates import SNAPSHOT_DATE
from kgedit.cli.examples import examples
from kgedit.cli.formats import print_result, result_format
from kgedit.cli.progress import say, steps
from kgedit.timesteps.profiles import COMPATS, PERSONA_STYLES, PROFILES
from kgedit.verbs.home import Home


@click.command(
    "export-timestep",
    epilog=examples(
        "kgedit export-timestep --from 2021-01-04 --to 2023-02-27",
        "kgedit export-timestep --from 2021-01-04 --to 2023-02-27 --kinds update --out updates",
        "kgedit export-timestep --from 2021-01-04 --to 2023-02-27 --profile wikifactdiff",
        "kgedit export-timestep --all",
        "kgedit export-timestep --all --engine store",
    ),
)
@click.option("--from", "older", **SNAPSHOT_DATE, help="Date of the older snapshot.")
@click.option("--to", "newer", **SNAPSHOT_DATE, help="Date of the newer snapshot.")
@click.option("--all", "stream", is_flag=True,
              help="Instead of two dates: the timesteps of all neighbouring snapshots, linked.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path, file_okay=False),
              help="Folder to write. Default: $KGEDIT_HOME/timesteps/FROM_TO, or FROM_TO_wikifactdiff. "
                   "With --all: the folder for these, by default $KGEDIT_HOME/timesteps.")  # fmt: skip
@click.option(
    "--seed", default=0, show_default=True, help="Seed for drawing personas, second hops and random neighbours."
)
@click.option("--known-facts", default=2000, show_default=True, type=click.IntRange(min=0),
              help="Facts of the older snapshot to write questions for.")  # fmt: skip
@click.option("--templates", type=click.Path(path_type=Path, exists=True), help="Template catalogue, a file or folder.")
@click.option("--personas", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder of personas.")
@click.option("--persona-style", type=click.Choice(PERSONA_STYLES), default=PERSONA_STYLES[0], show_default=True,
              help="Personas' own words, or the unchanged question in a frame (easier).")  # fmt: skip
@click.option("--form", "forms", multiple=True, shell_complete=completion.export_forms,
              help="Also write this form; repeat for several. Default: the profile's own.")  # fmt: skip
@click.option("--profile", type=click.Choice(PROFILES), default=PROFILES[0], show_default=True,
              help="What counts as a change.")  # fmt: skip
@click.option("--kinds", metavar="KIND,...", default="", shell_complete=completion.kinds,
              help="wikibigedit: keep changes of these kinds, such as update. Default: all.")  # fmt: skip
@click.option("--labelled-changes", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="wikibigedit: train a classifier of kinds with this file.")  # fmt: skip
@click.option("--kind-embedder", metavar="NAME",
              help="With --labelled-changes: embedder, or none for words. Default: all-minilm-l6-v2.")  # fmt: skip
@click.option("--functional-by", type=click.Choice(("values", "data", "constraints")),
              help="Criterion for relations with one value. Default: values; wikifactdiff: constraints.")  # fmt: skip
@click.option("--ask-as-of", is_flag=True, help="Begin questions with the day: As of 27 February 2023, who ...?")
@click.option("--changed-locality", is_flag=True,
              help="wikibigedit: prefer changed facts that are not cases as locality probes.")  # fmt: skip
@click.option("--compat", type=click.Choice(COMPATS), help="wikifactdiff: behave as its released code.")
@click.option("--pageviews", multiple=True, type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="A month's page views (pageviews-YYYYMM-user), for subjects and objects; repeat.")  # fmt: skip
@click.option("--only", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="CSV (subject,property) of the changes that count, as explore writes it.")  # fmt: skip
@click.option("--counts", type=click.Path(path_type=Path, exists=True),
              help="Counts of labels or ids in a corpus (tab, CSV, JSON), or texts to count labels in.")  # fmt: skip
@click.option("--engine", type=click.Choice(("auto", "graph", "store")), default="auto", show_default=True,
              help="Ask in Cypher, or in SQL without a server; auto: by size of the window.")  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace the folder if it holds anything else.")
@result_format
def export_timestep(
    older: datetime.datetime | None,
    newer: datetime.datetime | None,
    stream: bool,
    out: Path | None,
    seed: int,
    known_facts: int,
    templates: Path | None,
    personas: Path | None,
    persona_style: str,
    forms: tuple[str, ...],
    profile: str,
    kinds: str,
    labelled_changes: Path | None,
    kind_embedder: str | None,
    functional_by: str | None,
    ask_as_of: bool,
    changed_locality: bool,
    compat: str | None,
    pageviews: tuple[Path, ...],
    only: Path | None,
    counts: Path | None,
    engine: str,
    overwrite: bool,
) -> None:
    """Export the changes between two snapshots as questions.

    The folder contains a timestep: edits with their rephrased, persona, locality and two-hop questions. With --profile
    wikifactdiff it also contains what became true, ceased to be true and stayed true for each subject and relation,
    with neighbours.

    An existing timestep is kept if the export would be identical, so with --all an interrupted command resumes.
    """
    options: dict[str, Any] = {
        "out": out,
        "seed": seed,
        "known_facts": known_facts,
        "templates": templates,
        "personas": personas,
        "persona_style": persona_style,
        "forms": forms or None,
        "overwrite": overwrite,
        "profile": profile,
        "kinds": [name.strip() for name in kinds.split(",") if name.strip()],
        "labelled_changes": labelled_changes,
        "kind_embedder": kind_embedder,
        "functional_by": functional_by,
        "ask_as_of": ask_as_of,
        "changed_locality": changed_locality,
        "compat": compat,
        "pageviews": pageviews,
        "only": only,
        "counts": counts,
        "engine": engine,
    }
    if stream and not older and not newer:
        with steps("Exporting"):
            made = Home().export_all(**options, told=lambda name, kept: say(f"{name}: {'kept' if kept else 'written'}"))
        _tell_stream(made.manifest)
        print_result({"folder": made.folder, "stream": made.manifest}, text=made.folder)
    elif older and newer and not stream:
        with steps("Exporting"):
            timestep = Home().export_timestep(older, newer, **options)
        _tell_updates(timestep.manifest) if profile == "wikifactdiff" else _tell(timestep.manifest)
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
    for side, told in zip(manifest["preprocessing"].values(), ("older", "newer"), strict=True):
        say(f"{side['read']:>8,} statements of touched items in the {told} snapshot, {side['kept']:,} of them facts")
    funnel = manifest["funnel"]
    say(f"{funnel['changed']:>8,} changed subjects and relations")
    for reason, count in funnel["dropped"].items():
        say(f"{-count:>8,} {reason}")
    scenarios = ", ".join(f"{count} {name}" for name, count in manifest["scenarios"].items() if count) or "none"
    say(f"{funnel['kept']:>8,} updates ({scenarios})")
    say(f"         cases for editing: {sum(manifest['cases'].values())}; locality: {manifest['locality']}")
    _tell_left_out(manifest["final_filters"])
    _tell_specificity(manifest, manifest["popularity"])
