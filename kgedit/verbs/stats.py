"""Builds statistics for locate-then-edit methods before the runs that use them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgedit.errors import SpecError
from kgedit.progress import Steps
from kgedit.resources import use_home
from kgedit.verbs.home import folder_of
from kgedit.verbs.live_progress import step_line
from kgedit.verbs.options import ManyFiles, Verb, flag, function_of, options, python_only
from kgedit.verbs.shared_options import TIMESTEP_FORMS, DeviceOptions, InHome

if TYPE_CHECKING:
    import pyarrow as pa

    from kgedit.llm.language_model import LanguageModel
    from kgedit.timesteps.edit_files import Edits
    from kgedit.timesteps.timestep import Timestep

TINY = "tiny"

STATISTICS = {
    "layer": "int64",
    "tokens": "int64",
    "condition": "float64",
    "null_space": "int64",
    "width": "int64",
    "file": "string",
}
"""layer: index of the block. tokens: number of tokens read. condition: ratio of largest to smallest eigenvalue.
null_space: its number of directions, null if not requested. width: total number of directions. file: path of the
matrix."""


@options
class BuildStatistics(DeviceOptions, InHome, Verb["pa.Table"]):
    """Build the statistics of ROME, MEMIT and AlphaEdit.

    They are the second moments of the inputs of down-projections. Prints one line per layer: its index, the number of
    tokens read, the condition number of the matrix, the number of directions of its null space (if requested) and the
    file. They are stored in the home. Existing ones are not rebuilt, and a run uses them if it reads the same text,
    tokens and length.
    """

    model: Any = flag(
        kw_only=False,
        group="Model",
        metavar="NAME",
        complete="models",
        help="tiny (with --timestep), smollm2-135m, a folder, or a name on the hub; in Python also a model from "
        "`load_model`, or an unedited causal language model of transformers.",
    )
    layers: str | Sequence[int] = flag(
        kw_only=False, group="Model", metavar="LAYERS", help="Blocks, such as 4-8 or 3,5,7; in Python also indexes."
    )
    tokenizer: Any = python_only(default=None, help="See `edit`.")
    timestep: Any = flag(
        default=None,
        metavar="TIMESTEP",
        complete="timesteps",
        help=f"Use the known facts of this one: {TIMESTEP_FORMS}.",
    )
    texts: ManyFiles = flag(
        "--text",
        default=(),
        help="Use a file: text, or .jsonl or .parquet with a field text; text and JSON lines may be compressed (.gz). "
        "Repeat.",
    )
    tokens: int | None = flag(
        default=None, ge=1, help="Maximum number of tokens. Default: 26 per dimension, at least 40,000, as in a run."
    )
    length: int = flag(default=128, ge=2, rare=True, help="Number of tokens per row, which limits attention.")
    null_space: float | None = flag(
        default=None, ge=0, le=1, metavar="SHARE", help="Build null spaces with this share of the trace of C."
    )
    progress: Steps | None = python_only(default=None, help="Called with progress of the step.")

    def run(self) -> pa.Table:
        """Build the statistics.

        Returns:
            One row per layer, with the columns of STATISTICS.

        Raises:
            SpecError: if there is no text or more than one kind of it, or the model has no such layer.
            ModelError: if the model or a text cannot be read.
        """
        import pyarrow as pa

        from kgedit.llm.surgery.layers import parse_layers

        wanted = parse_layers(self.layers) if isinstance(self.layers, str) else list(self.layers)
        timestep = _open(self.timestep)
        corpus = _corpus(timestep, [Path(text) for text in self.texts])
        steps = self.progress or step_line
        with use_home(folder_of(self.home)):
            if timestep is not None and self.model == TINY:
                loaded = tiny_for(timestep, self.device, self.dtype)
            else:
                loaded = loaded_model(self.model, self.tokenizer, self.device, self.dtype)
            if not wanted or not 0 <= min(wanted) <= max(wanted) < len(loaded.blocks):
                raise SpecError(
                    [f"layers: the model has blocks 0 to {len(loaded.blocks) - 1}, not {list(wanted)}"],
                    of="No statistics were built",
                )
            moments = _moments(loaded, wanted, corpus, tokens=self.tokens, length=self.length, progress=steps)
            rows = [_row(moment, self.null_space) for moment in moments]
        return pa.Table.from_pylist(rows, schema=pa.schema(STATISTICS))


build_statistics = function_of(BuildStatistics)


def _moments(
    model: Any, layers: Sequence[int], corpus: Any, *, tokens: int | None, length: int, progress: Steps
) -> list[Any]:
    from kgedit.editing.corpora import TextBudget
    from kgedit.editing.hparams.locate_then_edit import statistics_tokens
    from kgedit.editing.locate_then_edit.second_moments import second_moments

    most = tokens or statistics_tokens(model.blocks[0].inner_width)
    update = progress(f"read {corpus.name}", most, "tokens")
    budget = TextBudget(most, length)
    found = second_moments(model, layers, corpus, budget=budget, progress=lambda done, _total: update(done, done))
    return list(found.values())


def _open(timestep: Timestep | str | Path | None) -> Timestep | None:
    from kgedit.timesteps.timestep import Timestep

    return timestep if timestep is None or isinstance(timestep, Timestep) else Timestep.open(Path(timestep))


def _corpus(timestep: Timestep | None, files: Sequence[Path]) -> Any:
    from kgedit.editing.corpora import corpus_of_facts, corpus_of_files

    if (timestep is None) == (not files):
        raise SpecError(["give either a timestep or text files"], of="No statistics were built")
    if timestep is None:
        return corpus_of_files(files)
    return corpus_of_facts(timestep.known_facts())


def loaded_model(model: Any, tokenizer: Any, device: str, dtype: str) -> Any:
    """Load a model by name, or wrap a given one as a LanguageModel."""
    from kgedit.verbs.editing import as_language_model, load_model

    return (
        load_model(model, device=device, dtype=dtype) if isinstance(model, str) else as_language_model(model, tokenizer)
    )


def tiny_for(edits: Edits | Timestep, device: str, dtype: str) -> LanguageModel:
    """Load `tiny` as runs on the edits use it, in the contexts that are always taught."""
    from kgedit.llm.devices import resolve_device, resolve_dtype
    from kgedit.llm.loading import load_model
    from kgedit.llm.teaching import choose_lesson

    chosen = resolve_device(device)
    lesson = choose_lesson(list(edits.cases()), edits.known_facts(), asked=())
    return load_model(TINY, device=chosen, dtype=resolve_dtype(dtype, chosen), lesson=lesson)


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
