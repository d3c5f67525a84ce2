"""Prints what `make demo` found, a sentence on each run; every number is read from the run folders."""

from __future__ import annotations

import shutil
import sys
import textwrap
from pathlib import Path

from kgedit.analysis.cells import as_text, mean
from kgedit.analysis.runs import Run
from kgedit.benchmark.edit_files import open_edits
from kgedit.records.runs import UNEDITED, Answer, Preset
from kgedit.records.scores import Score
from kgedit.runs.run_files import read_answers, read_runs

WIDTH = min(100, shutil.get_terminal_size().columns)
PROTOCOLS = {
    "single": "Each edit alone, undone before the next",
    "sequential": "All edits one after another, none undone",
    "per_timestep": "All edits given at once",
}
WRITTEN = {
    "exact_match": "asked to write it, it writes it exactly in",
    "contains": "asked for it in a chat, its answer holds it in",
}
"""Metric of a free preset -> what comes before its share."""


def results(home: Path) -> str:
    """The whole screen."""
    runs = read_runs(sorted((home / "runs").iterdir()))
    timestep = Path(runs[0].spec.timesteps[0])
    cases = list(open_edits(timestep).cases())
    updates = sum(case.tag == "update" for case in cases)
    older, newer = (f"{date[:4]}-{date[4:6]}-{date[6:]}" for date in timestep.name.split("_"))
    head = (
        f"Between {older} and {newer} the sample's Wikidata changed {len(cases)} facts that can be asked for: "
        f"{updates} have a new value, {len(cases) - updates} had none before. Each is an edit with questions."
    )
    shown = [block for run in runs for block in ("", *_run(run))]
    files = {
        "every command's output": home / "demo.log",
        "the questions": timestep / "wikibigedit.json",
        "tables with intervals": home / "report" / "report.md",
        "every answer": home / "runs" / "*" / "answers.jsonl",
    }
    return "\n".join([_wrapped(head), *shown, "", *(f"{name + ':':24}{path}" for name, path in files.items())])


def _percent(score: Score | None) -> str:
    return as_text(mean(score), "percent")


def _run(run: Run) -> list[str]:
    asked = _asked_freely(run)
    forced, free = (_update(run, preset) for preset in ("synthetic", asked.name))
    before = run.pooled("before", "update", asked.name)[asked.metric]
    kept = run.pooled("own", "locality", "synthetic").get("unchanged")
    sentence = (
        f"{PROTOCOLS[run.spec.protocol]}: fed the new answer, the model agrees with {_percent(forced)} % of its words' "
        f"tokens; {WRITTEN[asked.metric]} {_percent(free)} % ({_percent(before)} % before); "
        f"{_percent(kept)} % of answers about other subjects are unchanged."
    )
    title = f"{run.spec.method} on {run.model}, {run.scores.edits.edits} edits"
    return [title, _wrapped(sentence, indent="  "), *_example(run)]


def _asked_freely(run: Run) -> Preset:
    return next(preset for preset in run.spec.presets if preset.generation == "greedy")


def _update(run: Run, preset: str) -> Score:
    return next(score for score in run.pooled("own", "update", preset).values() if score.main)


def _example(run: Run) -> list[str]:
    """The first question whose written answer an edit changed, as the model answered it before and after."""
    preset = _asked_freely(run).name
    written = [item for item in read_answers(run.folder) if (item.axis, item.preset) == ("update", preset)]
    before = {item.case_id: item for item in written if item.model_state == UNEDITED}
    for item in written:
        if item.model_state != UNEDITED and item.text.strip() != before[item.case_id].text.strip():
            return [_wrapped(f"{item.question} {_said(before[item.case_id])} → {_said(item)}", indent="  e.g. ")]
    return []


def _said(answer: Answer) -> str:
    text = " ".join(answer.text.split())
    return f"“{textwrap.shorten(text, 40, placeholder='…')}”" if text else "(nothing)"


def _wrapped(text: str, *, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent))


if __name__ == "__main__":
    sys.stdout.write(results(Path(sys.argv[1])) + "\n")
