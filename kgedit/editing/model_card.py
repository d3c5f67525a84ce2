"""The model card (README.md) of a saved edited model."""

from __future__ import annotations

import json

from kgedit.records.published import SavedEdits

_MOST_ROWS = 200

_TRANSFORMERS = """\
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("PATH")
tokenizer = AutoTokenizer.from_pretrained("PATH")"""

_PEFT = """\
from peft import PeftModel

model = PeftModel.from_pretrained(base, "PATH")  # base: the model above, loaded with transformers"""

_KGEDIT = """\
import kgedit

editor = kgedit.load_edited("PATH")
editor.ask("QUESTION")
editor.model.module  # the transformers model"""


def model_card(saved: SavedEdits) -> str:
    """Render the model card as Markdown with the metadata for model hubs."""
    base = saved.base_model or "a model without a name"
    head = ["---", "library_name: " + {"model": "transformers", "adapter": "peft", "none": "kgedit"}[saved.weights]]
    if saved.base_model:
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
        *_how_to_load(saved),
        "## Edits",
        "",
        "| Subject | Prompt | Target |",
        "| :-- | :-- | :-- |",
        *rows,
        *([f"\n{more} more in `kgedit.json`."] if more else []),
    ]
    return "\n".join([*head, *lines, ""])


def _how_to_load(saved: SavedEdits) -> list[str]:
    lines = ["## Load it", ""]
    if saved.weights != "none":
        lines += ["```python", _TRANSFORMERS if saved.weights == "model" else _PEFT, "```", ""]
    if saved.memory:
        beside = "Some edits lie" if saved.weights == "model" else "The edits lie"
        lines += [f"{beside} in a memory beside the weights, which only kgedit reads:", ""]
    elif saved.weights != "none":
        lines += ["Or with kgedit:", ""]
    return [*lines, "```python", _KGEDIT, "```", ""]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
