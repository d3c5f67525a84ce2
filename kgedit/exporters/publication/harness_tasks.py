"""Tasks of lm-evaluation-harness for each axis of a timestep, and one on whether the new answer is more likely.

They work from any folder: harness_data.py is copied next to them as questions.py and locates the data.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from kgedit.exporters.publication import questions as published
from kgedit.exporters.publication.questions import PublishedTimestep

TASK_FOLDER = "lm_eval"
_PROMPT = '"Question: {{question}}\\nAnswer:"'
_LOADER = "questions"


def task_tag(config: str) -> str:
    """Name of the group of all tasks of a timestep; `kgedit` is the group of all timesteps."""
    return f"kgedit_{config}"


def task_files(timestep: PublishedTimestep) -> dict[str, str]:
    """File name -> content, for the tasks of a timestep."""
    tasks = {axis: _generated(timestep.config, axis) for axis in timestep.questions}
    if _has_old_answers(timestep.questions["update"]):
        tasks["new_or_old"] = _new_or_old(timestep.config)
    return {f"{task_tag(timestep.config)}_{name}.yaml": text for name, text in tasks.items()}


def loader_file() -> tuple[str, str]:
    """Name and content of the module with which the tasks read their questions."""
    path = Path(published.__file__).with_name("harness_data.py")
    return f"{_LOADER}.py", path.read_text(encoding="utf-8")


def _has_old_answers(updates: pa.Table) -> bool:
    return bool(pc.any(pc.greater(pc.list_value_length(updates["old_answers"]), 0)).as_py())


def _generated(config: str, axis: str) -> str:
    return f"""\
{_head(config, axis, loader="questions")}  axis: {axis}
output_type: generate_until
doc_to_text: {_PROMPT}
doc_to_target: answers
generation_kwargs:
  until: ["\\n"]
  do_sample: false
  max_gen_toks: 50
filter_list:
  - name: first_line
    filter:
      - function: regex
        regex_pattern: '^\\s*(.*\\S)'
      - function: take_first
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
    ignore_case: true
    ignore_punctuation: true
metadata:
  version: 1.0
"""


def _new_or_old(config: str) -> str:
    return f"""\
{_head(config, "new_or_old", loader="new_or_old")}output_type: multiple_choice
doc_to_text: {_PROMPT}
doc_to_choice: choices
doc_to_target: right
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
metadata:
  version: 1.0
"""


def _head(config: str, name: str, *, loader: str) -> str:
    """The configuration is quoted because YAML reads 20210104_20230227 as a number."""
    return f"""\
task: {task_tag(config)}_{name}
tag:
  - kgedit
  - {task_tag(config)}
custom_dataset: !function {_LOADER}.{loader}
test_split: test
dataset_kwargs:
  config: "{config}"
"""
