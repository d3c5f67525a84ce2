"""Texts of several sentences as targets: how much of a text, and of its single statements, each method teaches.

    OMP_NUM_THREADS=1 python benchmarks/long_answers.py TIMESTEP... --out runs/long

Edits two sets: the paragraphs of all items of the timesteps that have several changes (`kgedit export-timestep --form
unke`), and long_texts.json in AKEW's form, texts about invented things. Every edit is trained as a user's turn in the
chat template and evaluated in it, with free generation: the text (is it contained; ROUGE-L; share of tokens that are
right if the text is fed), another wording of the question, each statement of the text as a question of its own, and
unrelated questions. The same changes are also stored one by one, as facts, in rag and in the graph memory. Intervals
are those of the runs, clustered by text.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kgedit
from kgedit.analysis.runs import Run
from kgedit.records.scores import Score
from kgedit.runs.run_files import read_runs
from kgedit.timesteps.timestep import Timestep

TEXTS = Path(__file__).parent / "long_texts.json"
CHAT = {"context": "chat", "generation": "greedy", "max_new_tokens": 64}
PRESETS: Sequence[Mapping[str, Any]] = (
    {"name": "text", **CHAT, "truncation": "end_of_text", "metric": "rouge_l", "axes": ["update", "rephrase"]},
    {
        "name": "fed", **CHAT, "generation": "teacher_forcing", "truncation": "gold_length", "metric": "token_match",
        "axes": ["update"],
    },
    {
        "name": "statement", **CHAT, "truncation": "sentence", "metric": "contains", "max_new_tokens": 32,
        "axes": ["consequence", "locality"],
    },
)  # fmt: skip
STATISTICS = {"corpus": "prose"}
"""All edits of the files are evaluated: none is left as text for the statistics."""
METHODS: Sequence[Mapping[str, Any]] = (
    {"method": "none"},
    {"method": "rag"},
    {"method": "locft_bf"},
    {"method": "ft_m", "protocol": "single"},
    {"method": "memit", "protocol": "single", "settings": STATISTICS},
    {"method": "unke", "protocol": "single"},
    {"method": "anyedit", "protocol": "single", "settings": STATISTICS},
)
MEMORIES = ({"method": "none"}, {"method": "rag"}, {"method": "graph_rag"})
NEED_SUBJECTS = ("memit",)
"""They refuse UnKE's edits, which name none."""
HELD = {"single": ", one by one", "per_timestep": ", all at once"}
COLUMNS = (
    ("whole text", "update", "text", "contains"),
    ("text, ROUGE-L", "update", "text", "rouge_l"),
    ("reworded, ROUGE-L", "rephrase", "text", "rouge_l"),
    ("fed, tokens right", "update", "fed", "token_match"),
    ("statements", "consequence", "statement", "contains"),
    ("unrelated, right", "locality", "statement", "contains"),
    ("unrelated, unchanged", "locality", "statement", "unchanged"),
)
SINGLE = tuple((name, axis.replace("consequence", "update"), *rest) for name, axis, *rest in COLUMNS[4:])


def changed_items(timesteps: Sequence[Path]) -> list[dict[str, Any]]:
    """Items with several changes, each once, as `--form unke` writes them."""
    found: dict[str, dict[str, Any]] = {}
    for folder in timesteps:
        for item in json.loads((folder / "unke.json").read_text(encoding="utf-8")):
            if len(item["sub_question"]) > 1:
                rephrase = item["para_question"][:1]
                found.setdefault(item["id"], {**item, "para_question": rephrase, "timestep": folder.name})
    return list(found.values())


def write_single(timesteps: Sequence[Path], items: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the ids of the same changes as cases of their own."""
    chosen = {(item["timestep"], item["id"]) for item in items}
    ids = [
        case.case_id
        for folder in timesteps
        for case in Timestep.open(folder).cases()
        if (folder.name, case.fact.subject) in chosen
    ]
    path.write_text("\n".join(ids) + "\n", encoding="utf-8")


def swept(out: Path, runs: Sequence[Mapping[str, Any]], **fields: Any) -> list[Run]:
    """Carry out runs, and return them in this order."""
    base = {"model": "smollm2-135m", "protocol": "per_timestep", "train_context": "chat", **fields}
    done = kgedit.sweep({"base": base, "runs": [dict(run) for run in runs]}, out=out)
    for run in done.failed:
        print(f"{run.name}: {run.error}", flush=True)
    asked = [run["method"] for run in runs]
    folders = [run.folder for run in done.runs if not run.error]
    return sorted(read_runs(folders), key=lambda run: asked.index(run.spec.method))


def table(title: str, runs: Sequence[Run], columns: Sequence[Sequence[str]]) -> str:
    """Scores right after the edits, of the unedited model before; the number of questions is in the head."""
    pooled = [{key(score): score for score in run.scores.scores if score.timestep is None} for run in runs]
    counts = [pooled[-1][("own", *column[1:])].n for column in columns]
    heads = [f"{column[0]} (n = {count})" for column, count in zip(columns, counts, strict=True)]
    lines = [row(title, [*heads, "CPU s an edit"]), row(":--", ["--:"] * (len(heads) + 1))]
    for run, scores in zip(runs, pooled, strict=True):
        edited, costs = run.spec.method != "none", run.scores.edits
        cells = ["–" if column[3] == "unchanged" and not edited else
                 interval(scores["own" if edited else "before", *column[1:]]) for column in columns]  # fmt: skip
        name = f"`{run.spec.method}`{HELD[run.spec.protocol]}" if edited else "no edit"
        lines.append(row(name, [*cells, f"{costs.cpu_seconds / costs.edits:.2g}" if edited else "–"]))
    return "\n".join(lines)


def interval(score: Score) -> str:
    """A share in % with its 95 % interval."""
    assert score.low is not None
    assert score.high is not None
    return f"{100 * score.mean:.1f} ({100 * score.low:.0f}–{100 * score.high:.0f})"


def row(head: str, cells: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join([head, *cells])} |"


def key(score: Score) -> tuple[str, str, str, str]:
    """Stage, axis, preset and metric."""
    return score.stage, score.axis, score.preset, score.metric


def main() -> None:
    """Write the edit files, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timesteps", type=Path, nargs="+", help="folders with unke.json")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=("paragraphs", "changes", "texts"), help="only these")
    parser.add_argument("--methods", nargs="+", help="only these and none, by name")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    items = changed_items(given.timesteps)
    edits, single = given.out / "paragraphs.json", given.out / "single.txt"
    edits.write_text(json.dumps(items, ensure_ascii=False, indent=1), encoding="utf-8")
    write_single(given.timesteps, items, single)
    of_edits = {"timesteps": [str(edits)], "presets": list(PRESETS)}
    longer = [{**PRESETS[0], "max_new_tokens": 96}, *PRESETS[1:]]  # texts have up to 70 tokens, paragraphs 54
    of_changes = {"timesteps": [str(folder) for folder in given.timesteps], "only_cases": str(single)}
    asked = {**PRESETS[2], "axes": ["update", "locality"]}
    sets: Mapping[str, tuple[Sequence[Mapping[str, Any]], Mapping[str, Any], Sequence[Sequence[str]]]] = {
        "paragraphs": ([run for run in METHODS if run["method"] not in NEED_SUBJECTS], of_edits, COLUMNS),
        "changes": (MEMORIES, {**of_changes, "presets": [asked]}, SINGLE),
        "texts": (METHODS, {"timesteps": [str(TEXTS)], "presets": longer}, COLUMNS),
    }
    for name in given.sets or sets:
        methods, fields, columns = sets[name]
        runs = [run for run in methods if not given.methods or run["method"] in ("none", *given.methods)]
        print(table(name, swept(given.out / name, runs, **fields), columns), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
