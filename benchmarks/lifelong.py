"""Costs of an edit after 200 and after 20,000 others: time, floating-point operations, memory, checkpoint size.

    OMP_NUM_THREADS=1 python benchmarks/lifelong.py
    OMP_NUM_THREADS=1 python benchmarks/lifelong.py --method alphaedit --width 1536

A random Llama with three blocks is edited by whole calls of each method. Previous edits are put into the method's
memory by the memory's own functions, with made-up keys, because 20,000 whole edits of each method would take hours.
Edits at both lengths alternate and the median is used, since the machine may be shared; operations are counted by
PyTorch and exact. `--width` measures only the closed form, at the inner width of a real model. The script fails if a
ratio exceeds 1.2.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from kgedit.editing import make_editor
from kgedit.editing.editor import EditorState
from kgedit.editing.locate_then_edit.closed_form import AT_ONCE, AccumulatedSolve
from kgedit.llm.language_model import LanguageModel
from kgedit.progress import ignore
from kgedit.records.cases import Case, Fact, KnownFact
from kgedit.resources import use_home
from kgedit.runs.checkpoints import Checkpoint, Checkpoints
from kgedit.runs.run_folder import WrittenKeys

LENGTHS = (200, 20_000)
MOST_RATIO = 1.2

SEARCH = {"layers": "0-1", "steps": 4, "prompts": 3, "prefix_tokens": 4, "tokens": 2000, "length": 64}
METHODS: dict[str, dict[str, Any]] = {
    "memit": {**SEARCH, "history": True},
    "encore": SEARCH,
    "alphaedit": SEARCH,
    "alphaedit, withdrawable": {**SEARCH, "withdrawable": True},
    "grace": {"layer": 1, "steps": 10, "radius": 1e-3},
    "wise": {"layer": 1, "steps": 4, "shard": 5, "merge_every": 10, "retrieve": False},
}


def tiny_model() -> LanguageModel:
    """A random model with a byte tokenizer."""
    alphabet = {character: index for index, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    raw = Tokenizer(models.BPE(vocab={**alphabet, "<end>": len(alphabet)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<end>", pad_token="<end>")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=len(alphabet),
    )
    module = LlamaForCausalLM(config).eval().requires_grad_(False)
    return LanguageModel(name="tiny", revision="", module=module, tokenizer=tokenizer)


def case(number: int) -> Case:
    """A made-up edit; all questions have the same number of tokens."""
    name = f"T{number:07d}"
    fact = Fact(f"Q{number}", name, "P6", "mayor", "Q1", "x")
    return Case(name, "t", "update", fact, f"Who is the mayor of {name}?", f"M{number % 97:02d}", "", (), (), ())


def known_facts() -> list[KnownFact]:
    """Text for statistics, and unrelated prompts."""
    return [
        KnownFact(
            Fact(f"P{number}", f"R{number:03d}", "P7", "river", "Q2", "y"),
            question=f"Which sea takes R{number:03d}?",
            cloze=f"R{number:03d} flows into",
            rephrase="",
            answer="the sea",
        )
        for number in range(100)
    ]


def fill(editor: Any, edits: int) -> None:
    """Put the given number of made-up edits into an editor's memory, with the memory's own functions."""
    generator = torch.Generator().manual_seed(1)
    if hasattr(editor, "solve"):
        for layer in editor.layers:
            solve = editor.solve(layer)
            for start in range(0, edits, 200):
                solve.add(torch.zeros(64, min(200, edits - start)).double(), _keys(len(solve), 200, generator))
        if editor.overwrites:
            width, outputs = len(editor.solve(editor.layers[0])), 64
            row = {
                f"{name}.{layer}": torch.zeros(size)
                for layer in editor.layers
                for name, size in (("keys", width), ("values", outputs))
            }
            for number in range(edits):
                editor._kept.add(f"made up {number}", **row)
    elif hasattr(editor, "codebook"):
        for number in range(edits):
            key, value = 100 + torch.randn(128, generator=generator), torch.zeros(64)
            editor.codebook._add(key, (number,), value, 1e-3)
    else:
        editor.router.copies[0].add(
            [f"Who is the mayor of U{number:07d}?" for number in range(edits)],
            shortest=10,
            most=editor.settings.remeasured,
        )


def _keys(inputs: int, edits: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(inputs, edits, dtype=torch.float64, generator=generator)


@dataclass(frozen=True, slots=True)
class Cost:
    """Costs of one edit, and sizes of the state.

    Attributes:
        matrix_bytes: Peak memory of closed forms, which are part of a state only once edits are folded.
    """

    seconds: float
    work: float
    state_bytes: int
    checkpoint_bytes: int
    matrix_bytes: int


def measure(name: str, *, repeats: int) -> list[Cost]:
    """Costs of an edit at each length."""
    editors = [_editor(name, length) for length in LENGTHS]
    group = 10 if name == "wise" else 1  # its edits include a merge after every tenth
    seconds: list[list[float]] = [[], []]
    for repeat in range(repeats):
        for spent, editor in zip(seconds, editors, strict=True):
            cases = [case(10_000 + repeat * group + index) for index in range(group)]
            started = time.process_time()
            for one in cases:
                editor.apply([one])
            spent.append((time.process_time() - started) / group)
    costs = []
    for spent, editor in zip(seconds, editors, strict=True):
        with FlopCounterMode(display=False) as counter:
            for index in range(group):
                editor.apply([case(500_000 + index)])
        work = counter.get_total_flops() / group
        checkpoint = _checkpoint_bytes(editor)
        inputs = [len(editor.solve(layer)) for layer in getattr(editor, "layers", ())]
        matrices = sum(8 * width * (width + AT_ONCE) for width in inputs)
        costs.append(Cost(statistics.median(spent), work, _bytes(editor.state()), checkpoint, matrices))
    return costs


def _editor(name: str, length: int) -> Any:
    """An editor after the given number of edits."""
    editor = make_editor(name.partition(",")[0], tiny_model(), METHODS[name], seed=1)
    if editor.capabilities.needs_known_facts:
        editor.prepare(known_facts(), advance=ignore)
    editor.apply([case(number) for number in range(10)])
    fill(editor, length)
    return editor


def _bytes(state: EditorState) -> int:
    columns = [rows for table in state.tables.values() for rows in table.columns.values()]
    return sum(tensor.numel() * tensor.element_size() for tensor in [*state.tensors.values(), *columns])


def _checkpoint_bytes(editor: Any) -> int:
    """Bytes written by a run for fifty edits after a checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(Path(folder))
        checkpoints.save(Checkpoint("t", 0, 0, editor.next_checkpoint()))
        before = _size(Path(folder) / "rows.log")
        for number in range(50):
            editor.apply([case(700_000 + number)])
        checkpoints.save(Checkpoint("t", 50, 50, editor.next_checkpoint()))
        (newest,) = [path for path in Path(folder).iterdir() if path.is_dir()]
        return _size(Path(folder) / "rows.log") - before + sum(_size(path) for path in newest.iterdir())


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def measure_solve(width: int) -> list[float]:
    """Seconds of one edit's closed form at a width, after each length."""
    generator, found = torch.Generator().manual_seed(1), []
    solve, done = AccumulatedSolve(torch.eye(width, dtype=torch.float64) / 10), 0
    for length in LENGTHS:
        while done < length:
            solve.add(torch.zeros(1, 200, dtype=torch.float64), _keys(width, 200, generator))
            done += 200
        # The number of edits that are folded together, so that each has its share of the folding.
        spent = _spent(lambda: [solve.add(torch.zeros(1, 1).double(), _keys(width, 1, generator)) for _ in range(256)])
        found.append(spent / 256)
    return found


def measure_spread(name: str, layers: str, *, prompts: int, edits: int = 20) -> float:
    """Distance between sequential edits and the same edits at once: norm of the difference relative to the change.

    Both set the layers' output to the same values, computed on the unedited model.
    """
    changes, found = [], None
    for size in (edits, 1):
        model = tiny_model()
        model.module.double()
        editor: Any = make_editor(name, model, {**METHODS[name], "layers": layers, "prompts": prompts}, seed=1)
        editor.prepare(known_facts(), advance=ignore)
        before = [editor.matrices[layer].before.clone() for layer in editor.layers]
        cases = [case(number) for number in range(edits)]
        if found is None:
            requests = [editor.request_of(one) for one in cases]
            found = editor.search(model.blocks[editor.layers[-1]].module, requests, layer=editor.layers[-1])
        for start in range(0, edits, size):
            values = found.in_order(range(start, start + size))
            editor.search = lambda *_args, values=values, **_more: values
            editor.apply(cases[start : start + size])
        changes.append([editor.matrices[layer].weight - old for layer, old in zip(editor.layers, before, strict=True)])
    at_once, in_a_row = (torch.cat([change.flatten() for change in both]) for both in changes)
    return float((in_a_row - at_once).norm() / at_once.norm())


def _spent(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", action="append", choices=list(METHODS))
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument(
        "--width", type=int, default=1536, help="inner width of the closed form alone; 0 to leave it out"
    )
    options = parser.parse_args()
    short, long = LENGTHS
    print(f"{torch.get_num_threads()} threads; after {short:,} edits, after {long:,}, ratio")
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as home, use_home(Path(home)):
        for name in options.method or METHODS:
            failed += _report(name, measure(name, repeats=options.repeats))
        for name in () if options.method else ("memit", "encore", "alphaedit"):
            for layers, prompts in (("1", 1), ("1", 3), ("0-1", 1), ("0-1", 3)):
                share = measure_spread(name, layers, prompts=prompts)
                print(f"{name}, layers {layers}, {prompts} prompts: in a row differs from at once by {share:.2g}")
    if options.width:
        few, many = measure_solve(options.width)
        print(
            f"closed form of a layer {options.width:,} wide: {few * 1e3:.1f} ms, {many * 1e3:.1f} ms, {many / few:.2f}"
        )
    keys = WrittenKeys(
        (("t", 1), "t", f"Q{n}:P6:Q1", "update", f"Who is the mayor of town {n}?", "wild") for n in range(500_000)
    )
    print(f"keys of 500,000 answers of an interrupted run: {keys.nbytes / 1e6:.0f} MB")
    if failed:
        raise SystemExit(f"more than {MOST_RATIO} times: {', '.join(failed)}")


def _report(name: str, costs: Sequence[Cost]) -> list[str]:
    few, many = costs
    rows = {
        "ms an edit": (few.seconds * 1e3, many.seconds * 1e3),
        "million operations an edit": (few.work / 1e6, many.work / 1e6),
        "MB of state": (few.state_bytes / 1e6, many.state_bytes / 1e6),
        "MB of a checkpoint 50 edits later": (few.checkpoint_bytes / 1e6, many.checkpoint_bytes / 1e6),
    }
    for what, (short, long) in rows.items():
        print(f"{name}: {what} {short:.3g}, {long:.3g}, {long / short:.2f}", flush=True)
    held = {
        "time": many.seconds / few.seconds,
        "work": many.work / few.work,
        "checkpoint": many.checkpoint_bytes / (few.checkpoint_bytes + few.matrix_bytes),
    }
    return [f"{name}: {what} {ratio:.2f}" for what, ratio in held.items() if ratio > MOST_RATIO]


if __name__ == "__main__":
    main()
