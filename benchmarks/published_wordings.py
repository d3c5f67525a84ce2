"""Recall of a memory on published question templates: those of TimeQA (Chen, Wang and Wang 2021), BSD-3-Clause.

    OMP_NUM_THREADS=1 python benchmarks/published_wordings.py sample.kgmemory --year 2024 --each 10

The templates are read in ../shared/data/timeqa and are in no training set. For each relation with templates, rows with
a current value are asked for in turn, the first by hash, with "in YEAR" as the time. A question counts as found if the
row is among the facts returned with the default gate; facts of other rows are unasked. Intervals are clustered by
relation.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from everyday import Fact, ask_all, share_found
from everyday_baselines import rows_of
from everyday_questions import EverydayQuestion

from kgedit.graph_memory.building import open_memory

_TEMPLATES = Path(__file__).parents[2] / "shared" / "data" / "timeqa" / "relations.json"


def make_questions(
    facts: list[Fact], templates: dict[str, list[str]], *, year: int, each: int
) -> list[EverydayQuestion]:
    """At most `each` questions of every relation."""
    by_relation: dict[str, list[Fact]] = defaultdict(list)
    for fact in sorted(facts, key=lambda one: hashlib.sha256("\t".join(one).encode()).digest()):
        by_relation[fact[1]].append(fact)
    return [
        EverydayQuestion(
            relation,
            (_worded(templates[relation][place % len(templates[relation])], fact[0], year),),
            (frozenset([fact]),),
        )
        for relation, several in sorted(by_relation.items())
        if relation in templates
        for place, fact in enumerate(several[:each])
    ]


def _worded(template: str, subject: str, year: int) -> str:
    return template.replace("$1 's", f"{subject}'s").replace("$1", subject).replace("$4", f"in {year}")


def main() -> None:
    """Print one row for each relation, and one for all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memory", type=Path)
    parser.add_argument("--year", type=int, required=True)
    parser.add_argument("--each", type=int, default=10, help="questions of a relation")
    parser.add_argument("--embedder", default="all-minilm-l6-v2")
    given = parser.parse_args()
    memory = open_memory(given.memory, embedder=given.embedder, device="cpu")
    entries = json.loads(_TEMPLATES.read_text(encoding="utf-8"))
    # "$2" is the day of an event, which the memory does not ask for.
    spans = {name: [text for text in entry["template"] if "$4" in text] for name, entry in entries.items()}
    templates = {name: several for name, several in spans.items() if several}
    questions = make_questions([row.fact for row in rows_of(memory)], templates, year=given.year, each=given.each)
    asked = ask_all(memory, questions)
    print("| relation | questions | found, % | unasked facts |\n| :-- | --: | --: | --: |")
    for name in [*dict.fromkeys(one.kind for one in questions), "all"]:
        some = [one for one in asked if name in ("all", one.question.kind)]
        share = share_found(some, lambda one: one.found)
        print(f"| {name} | {len(some)} | {share} | {float(np.mean([one.unasked for one in some])):.2f} |")


if __name__ == "__main__":
    main()
