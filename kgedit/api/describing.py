"""What a timestep or a file of edits consists of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.extras import names_extra

if TYPE_CHECKING:
    import pyarrow as pa


@names_extra
def describe(path: str | Path, *, model: str | None = None) -> pa.Table:
    """Count what edits consist of: probes, funnel, tags, scenarios, kinds, relations, years, lengths, popularity.

    Args:
        path: Folder of a timestep, or a file of edits in any form that `run` takes.
        model: Whose tokens are counted as well as words: smollm2-135m, a folder, or a name on the hub.

    Returns:
        Columns part, name, value and share.

    Raises:
        BenchmarkError: if there are no edits.
        ModelError: if the model cannot be found.
    """
    from kgedit.benchmark.description import describe_edits
    from kgedit.benchmark.edit_files import open_edits

    edits = open_edits(Path(path))
    if model is None:
        return describe_edits(edits)
    from kgedit.api.editing import load_model

    loaded = load_model(model, device="cpu")
    return describe_edits(edits, count_tokens=lambda texts: [len(loaded.encode(text)) for text in texts])
