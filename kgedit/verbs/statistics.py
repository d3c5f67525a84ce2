"""Builds statistics for locate-then-edit methods before the runs that use them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kgedit.errors import SpecError
from kgedit.extras import names_extra
from kgedit.resources import use_home
from kgedit.verbs.home import Home, Steps, folder_of
from kgedit.verbs.live_progress import step_line

if TYPE_CHECKING:
    from kgedit.timesteps.timestep import Timestep

STATISTICS = pa.schema(
    [
        ("layer", pa.int64()),
        ("tokens", pa.int64()),
        ("condition", pa.float64()),
        ("null_space", pa.int64()),
        ("width", pa.int64()),
        ("file", pa.string()),
    ]
)
"""layer: index of the block. tokens: number of tokens read. condition: ratio of largest to smallest eigenvalue.
null_space: its number of directions, null if not requested. width: total number of directions. file: path of the
matrix."""


@names_extra
def build_statistics(
    model: Any,
    layers: str | Sequence[int],
    *,
    tokenizer: Any = None,
    timestep: Timestep | str | Path | None = None,
    texts: Iterable[str | Path] = (),
    tokens: int | None = None,
    length: int = 128,
    null_space: float | None = None,
    device: str = "auto",
    dtype: str = "auto",
    home: Home | str | Path | None = None,
    progress: Steps | None = None,
) -> pa.Table:
    """Build the second moments of the inputs of down-projections, which ROME, MEMIT and AlphaEdit need.

    They are stored under the home. Existing ones are not rebuilt, and a run uses them if it reads the same text, tokens
    and length.

    Args:
        model: A model by name, a model from `load_model`, or an unedited causal language model of transformers.
        layers: Indexes of blocks, or text such as "4-8" or "3,5,7".
        tokenizer: See `edit`.
        timestep: Timestep whose known facts are used as text.
        texts: Files to use instead: lines of text, or JSON lines or Parquet with a field `text`; text and JSON lines
            may be compressed (.gz).
        tokens: Maximum number of tokens; None means 26 per dimension, at least 40,000, as in a run.
        length: Tokens per row, which limits attention.
        null_space: Share of the trace that the null space may contain; None builds no null space.
        device: Device of a model given by name.
        dtype: Number format in which it is loaded.
        home: Home folder for the statistics; None means `$KGEDIT_HOME`, else `./kgedit-data`.
        progress: Called with progress of the step.

    Returns:
        One row per layer, with the columns of STATISTICS.

    Raises:
        SpecError: if there is no text or more than one kind of it, or the model has no such layer.
        ModelError: if the model or a text cannot be read.
    """
    from kgedit.llm.surgery.layers import parse_layers

    wanted = parse_layers(layers) if isinstance(layers, str) else list(layers)
    corpus = _corpus(timestep, [Path(text) for text in texts])
    with use_home(folder_of(home)):
        loaded = loaded_model(model, tokenizer, device, dtype)
        if max(wanted) >= len(loaded.blocks):
            raise SpecError([f"layers: the model has blocks 0 to {len(loaded.blocks) - 1}, not {max(wanted)}"])
        moments = _moments(loaded, wanted, corpus, tokens=tokens, length=length, progress=progress or step_line)
        rows = [_row(moment, null_space) for moment in moments]
    return pa.Table.from_pylist(rows, schema=STATISTICS)


def _moments(
    model: Any, layers: Sequence[int], corpus: Any, *, tokens: int | None, length: int, progress: Steps
) -> list[Any]:
    from kgedit.editing.corpora import TextBudget
    from kgedit.editing.locate_then_edit.second_moments import second_moments
    from kgedit.hparams.locate_then_edit import statistics_tokens

    most = tokens or statistics_tokens(model.blocks[0].inner_width)
    update = progress(f"read {corpus.name}", most, "tokens")
    budget = TextBudget(most, length)
    found = second_moments(model, layers, corpus, budget=budget, progress=lambda done, _total: update(done, done))
    return list(found.values())


def _corpus(timestep: Timestep | str | Path | None, files: Sequence[Path]) -> Any:
    from kgedit.editing.corpora import corpus_of_facts, corpus_of_files
    from kgedit.timesteps.timestep import Timestep

    if (timestep is None) == (not files):
        raise SpecError(["give either a timestep or text files"])
    if timestep is None:
        return corpus_of_files(files)
    opened = timestep if isinstance(timestep, Timestep) else Timestep.open(Path(timestep))
    return corpus_of_facts(opened.known_facts())


def loaded_model(model: Any, tokenizer: Any, device: str, dtype: str) -> Any:
    """Load a model by name, or wrap a given one as a LanguageModel."""
    from kgedit.verbs.editing import as_language_model, load_model

    return (
        load_model(model, device=device, dtype=dtype) if isinstance(model, str) else as_language_model(model, tokenizer)
    )


def _row(moment: Any, threshold: float | None) -> dict[str, Any]:
    from kgedit.editing.locate_then_edit.second_moments import condition_number, null_space

    kept = None if threshold is None else null_space(moment, threshold=threshold, relative=True).shape[1]
    return {
        "layer": moment.layer,
        "tokens": moment.tokens,
        "condition": condition_number(moment),
        "null_space": kept,
        "width": len(moment.matrix),
        "file": str(moment.path),
    }
