"""Speed of a report's page with 50,000 answers, measured in Chromium.

    python benchmarks/pages.py --answers 50000

Uses a made-up run with the given number of rows in the answer browser, each with an answer before and after, free and
under teacher forcing, so four times as many lines in answers.jsonl. Reports the time to make the page, its size, the
time from the request until answers can be filtered, and the time of each filter, search and selection of an answer
including layout. Fails if opening takes more than 2 s or filtering more than 100 ms. Needs Chromium: make browser.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml
from playwright.sync_api import Page, sync_playwright

from kgedit.llm.presets import PRESETS
from kgedit.records.cases import Case, Fact
from kgedit.records.runs import UNEDITED, Answer, EditCost, ModelState, RunSpec
from kgedit.runs.run_files import write_edited_cases
from kgedit.runs.scoring import write_scores
from kgedit.verbs.report import report

OPENS_IN, FILTERS_IN = 2.0, 0.1
"""Maximum seconds to open the page, and to filter."""

TIMESTEP = "20220101_20230101"
RELATIONS = tuple((f"P{number}", f"relation {number}") for number in range(1, 41))
SYLLABLES = ("ka", "lo", "mer", "tin", "bra", "so", "vel", "dun", "fi", "gra", "hem", "jo", "pul", "qua", "ri", "zen")


def name(draw: random.Random) -> str:
    """A made-up name of two words."""
    return " ".join("".join(draw.choices(SYLLABLES, k=3)).capitalize() for _ in range(2))


def made_up_cases(count: int, draw: random.Random) -> list[Case]:
    """Edits with distinct names."""
    cases = []
    for number in range(count):
        relation, label = RELATIONS[number % len(RELATIONS)]
        fact = Fact(f"Q{number + 1}", name(draw), relation, label, f"Q{10**6 + number}", name(draw))
        question = f"What is the {label} of {fact.subject_label}?"
        case_id = f"{fact.subject}:{relation}:{fact.object}"
        old = (name(draw),)
        cases.append(Case(case_id, TIMESTEP, "update", fact, question, fact.object_label, "", ("Q5",), old, ()))
    return cases


def made_up_answers(cases: list[Case], draw: random.Random) -> Iterator[Answer]:
    """Two axes for each case, before and after, free and forced."""
    for case in cases:
        for axis in ("update", "rephrase"):
            asked = case.question if axis == "update" else f"{case.question[:-1]} today?"
            for preset in (PRESETS["synthetic"], PRESETS["wild"]):
                for state in (UNEDITED, ModelState(TIMESTEP)):
                    forced = preset.generation == "teacher_forcing"
                    said = draw.choice(
                        (case.answer, case.old_answers[0], "", f"It is {name(draw)}, I think", name(draw))
                    )
                    yield Answer(
                        model_state=state,
                        timestep=TIMESTEP,
                        case_id=case.case_id,
                        relation=case.fact.property,
                        axis=axis,  # type: ignore[arg-type]
                        preset=preset.name,
                        context=preset.context,
                        generation=preset.generation,
                        truncation=preset.truncation,
                        question=asked,
                        prompt=asked if forced else f"Please answer the question:\nQ: {asked}\nA:",
                        answers=(case.answer,),
                        text=said,
                        token_match=float(said == case.answer) if forced else None,
                        prompt_tokens=20,
                        new_tokens=4,
                        seconds=0.01,
                    )


def write_run(folder: Path, rows: int) -> Path:
    """A finished run whose page has the given number of rows."""
    draw = random.Random(0)
    cases = made_up_cases(rows // 2, draw)
    spec = RunSpec(
        timesteps=(TIMESTEP,),
        model="made-up",
        method="rag",
        settings={},
        protocol="per_timestep",
        batch_size=None,
        presets=(PRESETS["synthetic"], PRESETS["wild"]),
        train_context=None,
        limit=None,
        evaluate_earlier=False,
        checkpoint_every=50,
        batch_tokens=4096,
        seed=0,
        device="cpu",
        dtype="float32",
    )
    folder.mkdir(parents=True)
    (folder / "spec.yaml").write_text(yaml.safe_dump(msgspec.to_builtins(spec)), encoding="utf-8")
    with (folder / "answers.jsonl").open("wb") as file:
        file.writelines(msgspec.json.encode(answer) + b"\n" for answer in made_up_answers(cases, draw))
    cost = EditCost(
        timestep=TIMESTEP, case_ids=(cases[0].case_id,), seconds=1.0, cpu_seconds=1.0, peak_memory_bytes=2**30
    )
    (folder / "edits.jsonl").write_bytes(msgspec.json.encode(cost) + b"\n")
    write_edited_cases(folder, cases)
    write_scores(folder)
    return folder


STEPS: dict[str, str] = {
    "first search": "page.answers.update({q: 'kalo'})",
    "search": "page.answers.update({q: 'melo' + (turn % 7)})",
    "search with many hits": "page.answers.update({q: 'relation ' + (turn % 7)})",
    "no search": "page.answers.update({q: ''})",
    "forced only": "page.answers.update({f: 'forced'})",
    "old answer": "page.answers.update({f: 'old'})",
    "all": "page.answers.update({f: 'all'})",
    "axis": "page.answers.update({axis: turn % 2 ? 'update' : ''})",
    "an answer": "document.getElementById('list').children[0].children[1 + turn % 5].click()",
}
"""Actions in the browser, with their names."""

TIMED = """([turns]) => {{
  const took = [];
  for (let turn = 0; turn < turns; turn++) {{
    const start = performance.now();
    {step};
    document.body.offsetHeight;
    took.push(performance.now() - start);
  }}
  return took;
}}"""


def time_steps(opened: Page) -> dict[str, list[float]]:
    """Milliseconds of each action including layout; the first search is measured only once."""
    return {
        what: opened.evaluate(TIMED.format(step=step), [1 if what.startswith("first") else 9])
        for what, step in STEPS.items()
    }


def time_openings(browser: Any, path: Path, times: int) -> tuple[list[float], Page]:
    """Seconds from the request until the answers are ready, each in a new window; the last window stays open."""
    seconds = []
    for _ in range(times):
        opened = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        opened.goto(path.as_uri(), wait_until="commit")
        opened.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
        seconds.append(float(opened.evaluate("document.documentElement.dataset.ready")) / 1000)
    return seconds, opened


def main() -> None:
    """Read the arguments, make the run and the page, and time it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=50_000, help="rows of the answer browser; default 50000")
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="its binary; default: the one on PATH")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(Path(folder) / "run", arguments.answers)
        start = time.perf_counter()
        report([run], html=Path(folder) / "report.html", brief=True)
        path = Path(folder) / "report.html"
        print(f"page made in {time.perf_counter() - start:.1f} s, {path.stat().st_size / 2**20:.1f} MiB")
        with sync_playwright() as playwright:
            # Chromium's sandbox does not start as root, which is the user in most containers.
            browser = playwright.chromium.launch(executable_path=arguments.chromium, args=["--no-sandbox"])
            seconds, opened = time_openings(browser, path, 5)
            rows = opened.evaluate("page.answers.size")
            steps = time_steps(opened)
            browser.close()
    print(
        f"{rows:,} rows; open: median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s of {len(seconds)}"
    )
    for what, took in steps.items():
        print(f"{what:22} median {statistics.median(took):6.1f} ms, worst {max(took):6.1f} ms of {len(took)}")
    slow = [what for what, took in steps.items() if statistics.median(took) > 1000 * FILTERS_IN]
    if slow or statistics.median(seconds) > OPENS_IN:
        sys.exit(f"Slower than the goals: {', '.join(slow) or 'the time until the page is there'}")


if __name__ == "__main__":
    main()
