"""`view`: the page of a run, or of several side by side."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from kgedit.verbs.options import AnyPath, HomeVerb, argument, many, options
from kgedit.verbs.report import report


@options
class ViewRuns(HomeVerb[Path]):
    """Open the page of a run, or of several side by side.

    The page is that of `kgedit report --html`: a verdict, charts and every answer to search. It is written to the
    folder `reports` of the home, and its path is printed.
    """

    runs: Annotated[Sequence[AnyPath], BeforeValidator(many)] = argument(
        kw_only=False, metavar="RUN...", complete="runs", help="Run folders."
    )

    def run(self, home: Path) -> Path:
        """Write the page.

        Raises:
            TimestepError: if a folder contains no finished run.
        """
        runs = [Path(run) for run in self.runs]
        name = "-".join(run.resolve().name for run in runs)
        if len(runs) > 1:  # names of many runs are longer than a file name may be
            name = f"{len(runs)}-runs-{hashlib.sha256(name.encode()).hexdigest()[:10]}"
        page = home / "reports" / name / "report.html"
        report(runs, html=page, overwrite=True)
        return page
