"""``kgedit write-sample``: writes the sample world as three dump files."""

from __future__ import annotations

from kgedit.cli.formats import print_result, result_format
from kgedit.cli.verb_command import verb_command
from kgedit.verbs.write_sample import WriteSample


@verb_command(
    WriteSample,
    name="write-sample",
    more=(result_format,),
    examples=(
        "kgedit write-sample sample/",
        "kgedit load-dump sample/20210104.json.gz --date 2021-01-04 --redirects sample/redirects.tsv",
    ),
)
def write_sample(given: WriteSample) -> None:
    """Write them, and print their paths."""
    written = given.run()
    print_result({"files": written}, text="\n".join(map(str, written)))
