"""Runs Neo4j's import tool: writes a whole store from CSV at tens of thousands of rows per second, server stopped.

The Community edition has no incremental import, so this is for the first load of a graph; later ones go over Bolt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kgedit.errors import GraphError
from kgedit.graph.managed.install import install
from kgedit.graph.managed.java import find_java
from kgedit.graph.managed.memory import plan_memory
from kgedit.graph.managed.programs import admin_tool, run_program


def import_csv(
    folder: Path,
    database: str,
    nodes: Mapping[str, Sequence[Path]],
    relationships: Mapping[str, Sequence[Path]],
    *,
    multiline: bool,
    lock: int,
) -> None:
    """Replace a database with the content of CSV files; see ManagedServer.bulk_import.

    Args:
        folder: Neo4j's home.
        database: Name of the database to replace.
        nodes: CSV files by label, the header first.
        relationships: CSV files by type, the header first.
        multiline: Whether quoted fields may contain line breaks.
        lock: File descriptor that the tool inherits.

    Raises:
        GraphError: if a file is missing, or the tool fails.
    """
    groups = [("--nodes", nodes), ("--relationships", relationships)]
    sources = [f"{option}={name}={_listed(files)}" for option, named in groups for name, files in named.items()]
    memory = plan_memory()
    command = admin_tool(
        find_java(),
        install(),
        *("database", "import", "full", database),
        "--overwrite-destination=true",
        "--verbose",  # otherwise it does not report which row was bad
        # Silently skipping a row is worse than stopping the import: any bad row ends it.
        "--bad-tolerance=0",
        "--strict=true",
        "--id-type=string",
        "--array-delimiter=U+001F",
        "--input-encoding=UTF-8",
        f"--multiline-fields={str(multiline).lower()}",
        # By default the tool takes 90% of the machine's memory, even in a container.
        f"--max-off-heap-memory={memory.bulk_import}",
        f"--report-file={folder / 'logs' / 'import.report'}",
        *sources,
        heap=memory.heap,
    )
    run_program(command, folder, what="Neo4j's import failed", keep_open=[lock])


def _listed(files: Sequence[Path]) -> str:
    for file in files:
        if not file.is_file():
            raise GraphError(f"There is no file {file} to import.")
        if "," in str(file):
            raise GraphError(f"The import tool cannot read {file}: rename it, a comma separates file names there.")
    return ",".join(str(file.absolute()) for file in files)
