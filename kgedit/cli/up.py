"""`kgedit up`: from two states of Wikidata to an edited model and its page, in one command.

Prints the plan or the table of --dry-run, and then the result in sentences, with one row per run.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgedit.analysis.tables import NOTHING, Column, Table
from kgedit.cli.formats import open_in_browser, open_page, print_json, print_tables, result_format, visible, wants_json
from kgedit.cli.progress import bars, say
from kgedit.cli.runs import ignore_renamed_functions, spec_options
from kgedit.cli.verb_command import FlagOption, Given, pairs, verb_command, with_parameters
from kgedit.pages.charts import percent
from kgedit.verbs.up import Up, carry_out

if TYPE_CHECKING:
    from kgedit.verbs.up import Outcome, StepTaken
    from kgedit.verbs.up_estimates import StepEstimate
    from kgedit.verbs.up_inputs import UpInputs


_SPEC_FIELDS = ("settings", "train_context", "protocol", "presets", "sample", "seed", "device")
"""Fields of the run specs that are flags of `up` too."""


def _more_options(command: Any) -> Any:
    all_cases = FlagOption(
        ["--all-cases"], group="Questions", is_flag=True, help="Also edit what the model answers right already."
    )
    dry_run = FlagOption(["--dry-run"], is_flag=True, help="Show the steps with estimates, without carrying them out.")
    of_spec = spec_options(_SPEC_FIELDS)
    for option in of_spec:  # the estimates, which come before the check of the spec, compute with these two
        option.type = {"sample": click.IntRange(min=1), "seed": click.IntRange(min=0)}.get(
            option.name or "", option.type
        )
    return with_parameters(command, *of_spec, all_cases, dry_run)


@verb_command(
    Up,
    name="up",
    several=True,
    more=(_more_options, open_page, result_format),
    examples=(
        "kgedit up --method locft_bf --method graph_rag --set steps=100 --sample 50",
        "kgedit up 20210104.json.gz 20230227.json.gz --redirects redirects.tsv --model smollm2-135m --method memit",
        "kgedit up --from 2021-01-04 --to 2023-02-27 --method grace --method rag --sample 50 --no-open",
        "kgedit up old.json.bz2 new.json.bz2 --from 2021-01-04 --to 2023-02-27 --dry-run",
        "kgedit up",
    ),
)
def up(
    given: Given,
    *,
    settings: tuple[str, ...],
    presets: tuple[str, ...],
    all_cases: bool,
    opens: bool,
    dry_run: bool,
    **fields: Any,
) -> None:
    """Show the plan, take the steps, and print the outcome."""
    ignore_renamed_functions()
    from kgedit.verbs.up_estimates import estimate

    spec = {**fields, "presets": list(presets) or None, "settings": pairs(settings) or None}
    wanted = given.make(Up, spec=spec, only_failed=not all_cases)
    inputs, track, overwrite = wanted.inputs(), wanted.track, wanted.overwrite
    if inputs.note:
        say(inputs.note)
    estimates = estimate(inputs, track=track, overwrite=overwrite)
    if dry_run:
        print_estimates(estimates)
        return
    say(plan(inputs, estimates))
    with bars() as progress:
        outcome = carry_out(inputs, overwrite=overwrite, track=track, on_step=_tell_step, progress=progress)
    _tell_outcome(outcome)
    if opens:
        open_in_browser(outcome.page.as_uri())


def _tell_step(taken: StepTaken) -> None:
    ended = {"begun": " ...", "made": f": {taken.seconds:.1f} s", "kept": ": already done"}
    say(f"{taken.number}/{taken.of} {taken.name}{ended[taken.state]}")


def _tell_outcome(outcome: Outcome) -> None:
    if wants_json():
        steps = [{"name": step.name, "state": step.state, "seconds": round(step.seconds, 3)} for step in outcome.steps]
        print_json({**outcome.numbers, "note": outcome.note, "steps": steps})
        return
    click.echo(screen(outcome.numbers, width=min(100, shutil.get_terminal_size().columns)))
    click.echo(outcome.page)


def plan(inputs: UpInputs, estimates: Sequence[StepEstimate]) -> str:
    """First line: the work, its number of steps and approximate duration."""
    runs = [f"{run['model']} with {run['method']}" for run in inputs.runs]
    edited = " and ".join([", ".join(runs[:-1]), runs[-1]] if len(runs) > 1 else runs)
    of = "the bundled sample of Wikidata" if inputs.is_sample else "Wikidata"
    left = [one for one in estimates if not one.is_done]
    seconds = [one.seconds for one in left if one.seconds is not None]
    about = f", about {_duration(sum(seconds))}" if seconds and len(seconds) == len(left) else ""
    steps = f"{len(estimates)} steps" + (
        f", {len(estimates) - len(left)} already done" if len(left) < len(estimates) else ""
    )
    return (
        f"Finding what changed in {of} between {inputs.older.date} and {inputs.newer.date}, and editing {edited}: "
        f"{steps}{about} on two idle cores. If it is stopped, the same command resumes it."
    )


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{round(seconds, -1):.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.0f} hours"


def print_estimates(estimates: Sequence[StepEstimate]) -> None:
    """Print a table of the steps with the basis of each estimate, or JSON."""
    if wants_json():
        from dataclasses import asdict

        print_json([asdict(one) for one in estimates])
        return
    columns = (
        Column("step", key=True),
        Column("state"),
        Column("seconds", "count"),
        Column("disk MB", "plain"),
        Column("memory GiB", "gibibytes"),
        Column("questions", "count"),
    )
    rows = tuple(
        (
            f"{number} {one.name}",
            "done" if one.is_done else "to do",
            *_rounded(one.seconds, one.disk, one.memory),
            one.questions,
        )
        for number, one in enumerate(estimates, start=1)
    )
    print_tables([Table("Estimates: nothing was done", columns, (*rows, _total(estimates)), _basis(estimates))])


def _total(estimates: Sequence[StepEstimate]) -> tuple[Any, ...]:
    seconds = [one.seconds for one in estimates if one.seconds is not None]
    total = sum(seconds) if len(seconds) == len(estimates) else None
    memory = max((one.memory for one in estimates if one.memory), default=None)
    rounded = _rounded(total, sum(one.disk for one in estimates), memory)
    return "all", "", *rounded, sum(one.questions for one in estimates)


def _rounded(seconds: float | None, disk: float, memory: float | None) -> tuple[int | None, float | None, float | None]:
    """Whole seconds, MB and GiB, with no more digits than an estimate supports."""
    return (
        None if seconds is None else round(seconds),
        float(f"{disk / 1e6:.2g}") or None,
        None if not memory else round(memory / 2**30, 1),
    )


def _basis(estimates: Sequence[StepEstimate]) -> str:
    bases = [f"{number}: {one.basis}." for number, one in enumerate(estimates, start=1) if not one.is_done]
    return "\n".join(
        [
            *bases,
            "Rates were measured on two idle cores, or are those of earlier runs in this home; your machine may take "
            "half or twice as long. Memory is empty where it was not measured.",
        ]
    )


_COLUMNS = (
    ("free", ("new facts", "answered freely")),
    ("reworded", ("asked in", "other words")),
    ("kept", ("unrelated", "answers kept")),
)
"""Fields of a method's numbers, and their headings on two lines."""

_MOST_LETTERS = 72
"""Letters of an answer that is shown: collapsed models repeat a word until the limit of tokens."""

_FORCED = ("forced", ("new tokens right", "teacher forcing"))
"""Field and heading shown if a run had no preset with free generation."""


def screen(numbers: Mapping[str, Any], *, width: int = 100) -> str:
    """Render the text that `kgedit up` prints, except the page's path.

    Args:
        numbers: Content of summary.json.
        width: Maximum number of characters per line; longer words are not broken.
    """
    changed, known, _learned, damage, _pages = numbers["sentences"]
    changes = Path(numbers["changes_page"]).name
    parts = [
        _filled(f"{changed} {known}", width),
        _table(numbers["methods"]),
        _filled(f"95 % intervals are in brackets. {damage}", width),
        *_examples(numbers, width),
        _filled(f"Every answer is on the following page; what changed is on {changes} beside it.", width),
    ]
    return "\n\n".join(parts)


def _table(methods: Sequence[Mapping[str, Any]]) -> str:
    columns = _COLUMNS if all(one["free"] for one in methods) else (*_COLUMNS, _FORCED)
    counts = [_count(methods, field) for field, _ in columns]
    titles = [("", *(title[line] for _, title in columns), ("seconds", "an edit")[line]) for line in (0, 1)]
    rows: list[Sequence[str]] = [
        *titles,
        ("model, method", *(f"n = {count:,}" if count else "" for count in counts), ""),
    ]
    for one in methods:
        shares = (_share(one[field], with_count=not count) for (field, _), count in zip(columns, counts, strict=True))
        rows.append([_label(one), *shares, _seconds(one["seconds_per_edit"])])
    return "\n".join(_aligned(rows))


def _count(methods: Sequence[Mapping[str, Any]], field: str) -> int | None:
    """Number of answers for the heading; None if rows differ."""
    counts = {one[field]["n"] for one in methods if one[field]}
    return counts.pop() if len(counts) == 1 else None


def _share(share: Mapping[str, Any] | None, *, with_count: bool) -> str:
    if share is None:
        return NOTHING
    n, low, high = share["n"], share["low"], share["high"]
    interval = "" if low is None or high is None else f" [{percent(low, n=n)}, {percent(high, n=n)}]"
    return f"{percent(share['mean'], n=n)} %{interval}" + (f", n = {n:,}" if with_count and n else "")


def _seconds(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{seconds:.2g}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of equal columns, the first left-aligned and the others right-aligned."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    for first, *others in rows:
        padded = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        yield "  ".join([first.ljust(widths[0]), *padded]).rstrip()


def _examples(numbers: Mapping[str, Any], width: int) -> Iterator[str]:
    examples, seed = numbers["examples"], numbers["changes"]["seed"]
    if not examples:
        return
    count = {1: "One", 2: "Two", 3: "Three"}[len(examples)]
    yield f"{count} of the questions, drawn at random (seed {seed}), with the models' free answers:"
    for one in examples:
        old = f" (formerly {', '.join(one['old_answers'])})" if one["old_answers"] else " (formerly no value)"
        lines = [*_lines("", one["question"], width), *_lines("  Right answer: ", f"{one['target']}{old}", width)]
        label = max(len(_label(answer)) for answer in one["answers"]) + 1
        for answer in one["answers"]:
            verdict = "right" if answer["right"] else "wrong"
            name = f"  {_label(answer).ljust(label)}"
            lines += _lines(f"{name}before: ", _quoted(answer["before"]), width)
            lines += _lines(f"{' ' * len(name)}after:  ", f"{_quoted(answer['after'])}, {verdict}", width)
        yield "\n".join(lines)


def _label(answer: Mapping[str, Any]) -> str:
    return f"{answer['model']}, {answer['method']}"


def _quoted(answer: str) -> str:
    """An answer in quotation marks, cut after the words that fit a line; the page has all of it."""
    if not answer:
        return "no answer"
    shown, _, _ = answer[:_MOST_LETTERS].rpartition(" ") if len(answer) > _MOST_LETTERS else ("", "", "")
    return f'"{shown} ..."' if shown else f'"{answer}"'


def _lines(begin: str, text: str, width: int) -> list[str]:
    """A text after its label, with further lines indented below the first."""
    return textwrap.wrap(visible(text), width, initial_indent=begin, subsequent_indent=" " * len(begin))


def _filled(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
