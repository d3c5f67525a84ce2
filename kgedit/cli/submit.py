"""``kgedit submit``: checks a finished run and submits it to a leaderboard."""

from __future__ import annotations

from kgedit.cli.formats import print_result, result_format
from kgedit.cli.progress import say, steps
from kgedit.cli.verb_command import verb_command
from kgedit.verbs.leaderboard import SubmitRun


@verb_command(
    SubmitRun,
    name="submit",
    more=(result_format,),
    examples=(
        "kgedit submit runs/memit --to board --by 'A. Researcher'",
        "kgedit submit runs/memit --to board --timestep 20210104_20230227",
    ),
)
def submit(given: SubmitRun) -> None:
    """Check the run, and print its entry."""
    with steps("Checking"):
        made = given.run()
    scores = made.submission.scores
    if made.is_new:
        say(f"Checked: {scores.edits.edits:,} edits, {scores.answers:,} answers, {len(scores.scores):,} scores.")
    else:
        say("This run is already on the board; its entry was not changed. Replace its statement: --overwrite")
    print_result({"entry": made.folder, "name": made.submission.name, "is_new": made.is_new}, text=made.folder)
