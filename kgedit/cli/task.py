"""``kgedit task``: one of many shares of a load or of a delta."""

from __future__ import annotations

from dataclasses import replace

from kgedit.cli.formats import print_result, result_format
from kgedit.cli.progress import bars
from kgedit.cli.verb_command import verb_command
from kgedit.resources import home
from kgedit.verbs.task import RunTask


@verb_command(
    RunTask,
    name="task",
    more=(result_format,),
    examples=(
        "kgedit task parse wikidata-20210104-all.json.gz --date 2021-01-04 --part 3/32",
        "kgedit task gather wikidata-20210104-all.json.gz --date 2021-01-04",
        "kgedit task finish wikidata-20210104-all.json.gz --date 2021-01-04 --part 3/32",
        "kgedit task delta --date 2023-02-27 --part 3/32",
    ),
)
def task(given: RunTask) -> None:
    """Do a part of a stage."""
    with bars() as steps:
        done = replace(given, progress=steps).run(home())
    unit = "blocks" if given.stage == "parse" else "buckets"
    text = f"{given.stage}, part {given.part}: {done:,} {unit} done"
    print_result({"stage": given.stage, "part": given.part, "done": done}, text=text)
