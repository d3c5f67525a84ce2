"""General ability of a locally loaded model with its current edits: loss on a text, and lm-evaluation-harness.

Every token of a text except the first is predicted once, from the preceding tokens of its window; windows do not
overlap. The loss depends on the window size: compare only values measured with the same one.

The harness is an extra and is imported only when used. Its data sets come from the Hugging Face hub, unless a task is a
user's YAML file with local data.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from kgedit.errors import MissingExtraError, ModelError
from kgedit.llm.devices import enough_memory
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.onednn import frozen_products
from kgedit.llm.training import row_losses

WINDOW = 512
"""Number of tokens of a window; fewer if the model's context is shorter."""


@dataclass(frozen=True, slots=True)
class TextLoss:
    """Loss of a model on a text.

    Attributes:
        tokens: Number of predicted tokens.
        loss: Mean negative log-likelihood of these tokens in nats; its exponential is the perplexity.
    """

    tokens: int
    loss: float


def text_loss(model: LanguageModel, text: str) -> TextLoss:
    """Compute the model's loss on a text, one window at a time.

    Raises:
        ModelError: if the text has fewer than two tokens.
    """
    ids = model.encode(text)
    if len(ids) < 2:
        raise ModelError("A text of fewer than two tokens has no perplexity. Give --ability a longer one.")
    width = min(WINDOW, model.positions or WINDOW)
    total, tokens = 0.0, 0
    with torch.inference_mode(), frozen_products(model), enough_memory(f"a window of {width} tokens"):
        # The last token of a window is the first of the next one: it is predicted once and read twice.
        for start in range(0, len(ids) - 1, width - 1):
            window = ids[start : start + width]
            rows, mask = model.pad_left([window])
            logits = model.forward(rows, mask, last=len(window)).logits
            predicted = len(window) - 1
            total += float(row_losses(logits, rows[:, 1:])) * predicted
            tokens += predicted
    return TextLoss(tokens, total / tokens)


_BATCH = 8
"""Questions of a task read at once: fits a small GPU beside the model; affects scores only by rounding."""


@dataclass(frozen=True, slots=True)
class TaskValue:
    """One metric of one task.

    Attributes:
        task: Name of the task.
        metric: Name in the harness, with its filter unless that is "none".
        value: Value of the metric over all documents.
        error: Standard error as reported by the harness; None if it reports none.
        n: Number of documents.
        version: Version of the task, as reported by the harness.
        higher_is_better: Direction of the metric; None if the harness does not report it.
    """

    task: str
    metric: str
    value: float
    error: float | None
    n: int
    version: str
    higher_is_better: bool | None


def measure_tasks(model: LanguageModel, tasks: Sequence[str], *, most: int | None = None) -> list[TaskValue]:
    """Evaluate tasks with the harness; returns values ordered by task and metric.

    Args:
        model: The model, with any edits applied to it; text that a method prepends to questions is not used by the
            harness.
        tasks: Names of tasks or groups, or paths of YAML files with one task each.
        most: Maximum number of documents of each task; None means all.

    Raises:
        MissingExtraError: if the package is not installed.
        ModelError: if a task is unknown, its data is not available, or memory is too small.
    """
    if find_spec("lm_eval") is None:
        raise MissingExtraError("lm_eval", "lm-eval")
    import lm_eval
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    names, folders = _names_and_folders(tasks)
    all_are_files = all(_is_file(task) for task in tasks)
    with _random_state_kept(), enough_memory(f"the tasks {', '.join(names)}"):
        manager = _manager(TaskManager, folders, not all_are_files)
        unknown = [name for name in names if name not in manager.all_tasks]
        if unknown:
            raise ModelError(
                f"lm-evaluation-harness has no task {', '.join(unknown)}. Names: lm_eval ls tasks; a task of your own "
                "is given by its YAML file."
            )
        harness = HFLM(pretrained=model.module, tokenizer=model.tokenizer, batch_size=_BATCH)
        try:
            results = lm_eval.simple_evaluate(
                model=harness, tasks=names, task_manager=manager, limit=most, log_samples=False, bootstrap_iters=0
            )
        except (OSError, ValueError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise ModelError(
                f"The tasks {', '.join(names)} cannot be measured: {first}. Their data come from the Hugging Face hub; "
                "without a network give a YAML file of a task with local data."
            ) from error
    return read_results(results)


# Kept for the next state of the model: the harness's own tasks are thousands of files, read in seconds.
@lru_cache(maxsize=1)
def _manager(manager: Any, folders: tuple[str, ...], include_defaults: bool) -> Any:
    return manager(include_path=list(folders) or None, include_defaults=include_defaults)


def _is_file(task: str) -> bool:
    return Path(task).suffix in (".yaml", ".yml")


def _names_and_folders(tasks: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Task names for the harness, and the folders of those given as files."""
    files = [Path(task) for task in tasks if _is_file(task)]
    names = [_name_in(Path(task)) if _is_file(task) else task for task in tasks]
    return names, tuple(dict.fromkeys(str(path.resolve().parent) for path in files))


def _name_in(path: Path) -> str:
    try:
        # The harness's own tags, such as !function, are ignored.
        name = yaml.load(path.read_text(encoding="utf-8"), Loader=_AnyTag).get("task")
    except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError) as error:
        raise ModelError(f"{path} is not a task of lm-evaluation-harness: {error}. Give a YAML file of one.") from error
    if not isinstance(name, str):
        raise ModelError(f"{path} names no task: it needs a line 'task: NAME'.")
    return name


class _AnyTag(yaml.SafeLoader):
    pass


_AnyTag.add_multi_constructor("!", lambda loader, suffix, node: None)  # noqa: ARG005 - the signature of a constructor


@contextmanager
def _random_state_kept() -> Iterator[None]:
    """Restore random states afterwards: the harness seeds all generators, and later edits must not depend on that."""
    python, arrays = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count()))
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(arrays)


def read_results(results: Mapping[str, Any]) -> list[TaskValue]:
    """Read the values from the harness's results, ordered by task and metric."""
    found = []
    for task, values in sorted(results["results"].items()):
        better = results.get("higher_is_better", {}).get(task) or {}
        counted = (results.get("n-samples", {}).get(task) or {}).get("effective", 0)
        for key, value in sorted(values.items()):
            metric, _, filtered = key.partition(",")
            if "," not in key or metric.endswith("_stderr") or not isinstance(value, int | float):
                continue
            error = values.get(f"{metric}_stderr,{filtered}")
            found.append(
                TaskValue(
                    task=task,
                    metric=metric if filtered == "none" else f"{metric} ({filtered})",
                    value=float(value),
                    error=float(error) if isinstance(error, int | float) else None,
                    n=int(counted),
                    version=str(results.get("versions", {}).get(task, "")),
                    higher_is_better=better.get(metric),
                )
            )
    return found
