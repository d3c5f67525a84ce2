"""The model card (README.md) of a saved edited model: what it contains, and code that loads it."""

from __future__ import annotations

import json

from kgedit.llm.loading import BUILT_IN
from kgedit.records.published import SavedEdits

_MOST_ROWS = 200
"""Maximum edits listed in a model card, which people read; all of them are in the file of edits."""


_TRANSFORMERS = """\
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("PATH")
tokenizer = AutoTokenizer.from_pretrained("PATH")"""


_PEFT = """\
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

base = {base}
model = PeftModel.from_pretrained(base, "PATH")
tokenizer = AutoTokenizer.from_pretrained("PATH")"""


_PEFT_ON_BUILT_IN = """\
import kgedit
from peft import PeftModel
from transformers import AutoTokenizer

base = kgedit.load_model({name}).module
model = PeftModel.from_pretrained(base, "PATH")
tokenizer = AutoTokenizer.from_pretrained("PATH")"""


_KGEDIT = """\
import kgedit

editor = kgedit.load_edited("PATH")
editor.ask("QUESTION")
editor.model.module  # the transformers model"""


def model_card(saved: SavedEdits, *, by_name: bool, is_narrow: bool) -> str:
    """Render the model card as Markdown with the metadata for model hubs.

    Args:
        saved: Content of kgedit.json.
        by_name: Whether the base model can be loaded by its name.
        is_narrow: Whether the model is in bfloat16 or float16.
    """
    base = saved.base_model or "a model without a name"
    head = ["---", "library_name: " + {"model": "transformers", "adapter": "peft", "none": "kgedit"}[saved.weights]]
    if by_name and saved.base_model not in BUILT_IN:  # hubs accept only names of theirs
        head.append(f"base_model: {json.dumps(saved.base_model, ensure_ascii=False)}")
    head += ["tags:", "- knowledge-editing", "- kgedit", "---", ""]
    source = f" ({saved.source})" if saved.source else ""
    shown = saved.edits[:_MOST_ROWS]
    rows = [f"| {_cell(edit.subject)} | {_cell(edit.prompt)} | {_cell(edit.target)} |" for edit in shown]
    more = len(saved.edits) - len(shown)
    lines = [
        f"# {base}, edited",
        "",
        f"{len(saved.edits)} facts of {base} were edited with `{saved.method}`{source} by kgedit {saved.kgedit}. "
        "Hyperparameters and all edits are in `kgedit.json`.",
        "",
        *_how_to_load(saved, by_name=by_name, is_narrow=is_narrow),
        "## Edits",
        "",
        "| Subject | Prompt | Target |",
        "| :-- | :-- | :-- |",
        *rows,
        *([f"\n{more} more in `kgedit.json`."] if more else []),
    ]
    return "\n".join([*head, *lines, ""])


def _how_to_load(saved: SavedEdits, *, by_name: bool, is_narrow: bool) -> list[str]:
    lines = ["## Load it", ""]
    if saved.weights != "none":
        code = _TRANSFORMERS if saved.weights == "model" else _peft(saved, by_name=by_name)
        lines += ["```python", code, "```", ""]
    if is_narrow and saved.weights == "model":
        lines += ["The edited weights are in float32; transformers rounds them, kgedit does not.", ""]
    if saved.memory:
        beside = "Some edits lie" if saved.weights == "model" else "The edits lie"
        lines += [f"{beside} in a separate memory, which only kgedit reads:", ""]
    elif saved.weights != "none":
        lines += ["Or with kgedit:", ""]
    return [*lines, "```python", _KGEDIT, "```", ""]


def _peft(saved: SavedEdits, *, by_name: bool) -> str:
    """Code that loads the base model and the adapter."""
    if by_name and saved.base_model in BUILT_IN:
        return _PEFT_ON_BUILT_IN.format(name=json.dumps(saved.base_model))
    where = json.dumps(saved.base_model if by_name else "PATH/base", ensure_ascii=False)
    revision = f", revision={json.dumps(saved.base_revision)}" if saved.base_revision else ""
    return _PEFT.format(base=f"AutoModelForCausalLM.from_pretrained({where}{revision})")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
