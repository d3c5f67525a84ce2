"""kgedit's command line as the application of ``spark-submit`` (docs/how-to/spark.md)."""

from __future__ import annotations

import sys
from pathlib import Path


def run() -> None:
    """Run the command line."""
    # spark-submit puts this file's folder on the path, where its modules would hide others of the same name.
    folder = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != folder]
    from kgedit.cli import main

    main(prog_name="kgedit")


if __name__ == "__main__":
    run()
