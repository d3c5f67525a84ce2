"""``kgedit load-changes``: takes what changed out of the store of a cluster, for work on one machine."""

from __future__ import annotations

from kgedit.cli.formats import print_result, result_format
from kgedit.cli.load_dump import project
from kgedit.cli.progress import say, steps
from kgedit.cli.verb_command import Given, verb_command
from kgedit.resources import home as default_home
from kgedit.verbs.graph import ScopeOptions
from kgedit.verbs.load_changes import LoadChanges


@verb_command(
    LoadChanges,
    ScopeOptions,
    name="load-changes",
    more=(result_format,),
    examples=("kgedit load-changes /mnt/cluster/kgedit-data --from 2021-01-04 --to 2023-02-27",),
)
def load_changes(given: Given) -> None:
    """Take what changed, then update the graph."""
    home, scope = default_home(), given.make(ScopeOptions).scope()
    with steps("Taking what changed"):
        taken = given.with_values(graph=False).make(LoadChanges).run(home)
    for snapshot in taken:
        manifest = snapshot.manifest
        whole = manifest["part"]["whole"]
        counts = (f"{manifest[name]:,} of {whole[name]:,} {name}" for name in ("entities", "claims", "facts"))
        say(f"Snapshot {snapshot.name}: {', '.join(counts)}.")
    held = project(scope=scope) if given.values["graph"] else None
    print_result({"snapshots": [snapshot.manifest for snapshot in taken], "graph": held})
