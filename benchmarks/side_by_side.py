"""kgedit and EasyEdit on the same edits, alternating, in CPU seconds: the measurement of `editing.py --peer`.

Both edit the same weights in float32 with the same number of threads. EasyEdit's hyperparameters are derived from
kgedit's resolved settings, so they are equal by construction; random prefixes, C, null space, WISE's mask and GRACE's
random starts are computed by one side and passed to the other. Both models are restored after each edit. The first edit
of each side is not counted, because it includes one-time computations.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
from easyedit_hparams import Hparams, of_alphaedit, of_ft_m, of_grace, of_memit, of_rome, of_wise
from safetensors.torch import load_file

from kgedit.editing import make_editor
from kgedit.editing.editor import Editor, EditorState
from kgedit.editing.locate_then_edit.editor import LocateThenEdit
from kgedit.editing.locate_then_edit.subject_prompts import encode_with_subject
from kgedit.editing.side_memory.side_copies import random_mask
from kgedit.editing.training import seed_for
from kgedit.llm.decoding import sample_random_prefixes
from kgedit.llm.generation import Question, ask
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.model_files import save_tensors
from kgedit.llm.presets import PRESETS
from kgedit.progress import ignore
from kgedit.records.cases import Case, KnownFact


@dataclass(frozen=True, slots=True)
class Comparison:
    """Definition of one row of the table.

    Attributes:
        method: Name in METHODS.
        goal: Required speedup over EasyEdit.
        hparams: EasyEdit's hyperparameters equivalent to an editor's settings.
        settings: kgedit's settings that differ from the default, each because EasyEdit has no alternative.
        at_once: Maximum number of edits in one call of kgedit.
        batches: Whether EasyEdit also takes them in one call.
    """

    method: str
    goal: float
    hparams: Callable[[Any, Hparams], Hparams]
    settings: Mapping[str, object] = field(default_factory=dict)
    at_once: int = 1
    batches: bool = False

    def name(self, edits: int) -> str:
        """Name in the table, for the given number of edits."""
        calls = min(self.at_once, edits)
        return self.method if self.at_once == 1 else f"{self.method}, {calls} in a call"


@dataclass(frozen=True, slots=True)
class Measured:
    """Result of one side for several edits.

    Attributes:
        seconds: CPU time of all edits together.
        passes: Forward passes with gradients.
        right: For each edit, share of the target's tokens that are correct under teacher forcing.
        change: Changes of weights, or the side memory, by name.
    """

    seconds: float
    passes: int
    right: list[float]
    change: dict[str, torch.Tensor]


AS_THE_CODE = {"drift_at": "subject", "enough": 0, "tokens": 10_000}

COMPARISONS = (
    Comparison("ft_m", 2.5, of_ft_m),
    Comparison("rome", 4.0, of_rome, AS_THE_CODE),
    Comparison("memit", 6.0, of_memit, AS_THE_CODE, at_once=4, batches=True),
    Comparison("alphaedit", 6.0, of_alphaedit, AS_THE_CODE, at_once=4, batches=True),
    Comparison("grace", 4.0, of_grace, {"steps": 50, "stop_loss": 0}),
    Comparison("grace", 8.0, of_grace, {"steps": 50, "stop_loss": 0}, at_once=4),
    Comparison(
        "wise", 2.0, of_wise, {"margin_weight": 1.0, "counted": "read", "one_token_more": True, "threshold": "mean"}
    ),
)
"""On both sides, GRACE takes all of its steps, with EasyEdit's number of steps."""


class Peer:
    """EasyEdit in a separate process; requests and answers are lines of JSON."""

    def __init__(self, process: subprocess.Popen[str], scratch: Path) -> None:
        self._process, self._scratch = process, scratch
        self._line()

    def edit(self, request: dict[str, Any]) -> Measured:
        """Send an edit request.

        Raises:
            SystemExit: if the process ended; its output is in the scratch folder's log.
        """
        out = self._scratch / "change.safetensors"
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request | {"out": str(out)}) + "\n")
        self._process.stdin.flush()
        return Measured(**self._line(), change=load_file(out))

    def _line(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"EasyEdit's process ended:\n{(self._scratch / 'peer.log').read_text()[-3000:]}")
        return json.loads(line)


@contextmanager
def peer(checkout: Path, python: str, model: Path, scratch: Path, statistics: Path) -> Iterator[Peer]:
    """Run EasyEdit's process within the context.

    Args:
        python: Interpreter with the packages that EasyEdit's text editors import.
        model: Folder of the model.
        scratch: Folder for its output and its files.
        statistics: C by layer.
    """
    setting = {
        "checkout": str(checkout),
        "model": str(model),
        "threads": torch.get_num_threads(),
        "statistics": str(statistics),
    }
    driver = Path(__file__).with_name("editing_peer.py")
    with (scratch / "peer.log").open("w") as log:
        process = subprocess.Popen(
            [python, str(driver), json.dumps(setting)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=scratch,
        )
        try:
            yield Peer(process, scratch)
        finally:
            process.kill()
            process.wait()


class SideBySide:
    """Both sides with the same model.

    Args:
        scratch: Folder for the copy of the model and for exchanged files.
        cases: Edits to measure, followed by one for warm-up.
        known: Facts for statistics and unrelated prompts.
        edits: Number of edits of one run, a divisor of the number to measure.
    """

    def __init__(
        self, model: LanguageModel, scratch: Path, cases: Sequence[Case], known: Sequence[KnownFact], *, edits: int
    ) -> None:
        self.model, self.scratch, self.edits = model, scratch, edits
        self.cases, self.known = list(cases), list(known)
        self.passes = 0
        self.folder = scratch / "llama-copy"  # EasyEdit recognises architectures by such names
        model.save_pretrained(self.folder)
        model.module.get_output_embeddings().register_forward_hook(self._count)

    def statistics(self, comparisons: Sequence[Comparison]) -> Path:
        """C of every layer that these methods need, with kgedit's damping, in a file."""
        found: dict[str, torch.Tensor] = {}
        for own in comparisons:
            editor = make_editor(own.method, self.model, own.settings)
            if isinstance(editor, LocateThenEdit):
                editor.prepare(self.known, advance=ignore)
                found |= {str(layer): editor.damped(layer) for layer in editor.layers}
        path = self.scratch / "statistics.safetensors"
        save_tensors(path, found)
        return path

    def compare(self, own: Comparison, other: Peer) -> str:
        """Measure one row of the table."""
        editor = self._editor(own)
        ours: list[Measured] = []
        theirs: list[Measured] = []
        batches = [self.cases[-1:]] + [
            self.cases[start : min(start + own.at_once, first + self.edits)]
            for first in range(0, len(self.cases) - 1, self.edits)
            for start in range(first, first + self.edits, own.at_once)
        ]
        for number, batch in enumerate(batches):
            sides = [
                lambda batch=batch: ours.append(self._ours(own, editor, batch)),  # type: ignore[misc]
                lambda batch=batch, first=not number: theirs.append(  # type: ignore[misc]
                    self._theirs(own, editor, other, batch, short=first)
                ),
            ]
            for side in sides if number % 2 else reversed(sides):
                side()
            print(
                f"{own.name(self.edits)} {number}/{len(batches) - 1}: "
                f"{theirs[-1].seconds:.2f} and {ours[-1].seconds:.2f} s",
                file=sys.stderr,
            )
        return _row(own, theirs[1:], ours[1:], edits=self.edits, runs=(len(self.cases) - 1) // self.edits)

    def _editor(self, own: Comparison) -> Editor[Any]:
        settings = dict(own.settings)
        if own.method == "wise":
            settings |= self._wise_scale()
        editor = make_editor(own.method, self.model, settings)
        if editor.capabilities.needs_known_facts:
            editor.prepare(self.known, advance=ignore)
        if isinstance(editor, LocateThenEdit):
            state = editor.state()
            prefixes = self._prefixes(editor.settings)
            editor.load_state(EditorState(state.tensors, {**state.record, "random_prefixes": prefixes, "largest": {}}))
            editor.restore()
        return editor

    def _wise_scale(self) -> dict[str, object]:
        """Unit and learning rate as measured by kgedit on the first edit; EasyEdit's decay is scaled with the rate."""
        editor = make_editor("wise", self.model, {"steps": 1})
        editor.prepare(self.known, advance=ignore)
        editor.apply(self.cases[-1:])
        unit, rate, _ = editor.state().record["scale"]
        editor.restore()
        return {"unit": unit, "learning_rate": rate, "decay": _DECAY * rate}

    def _prefixes(self, settings: Any) -> list[list[int]]:
        """Random prefixes as texts that EasyEdit tokenizes to the same tokens before every prompt."""
        count = settings.prompts - 1
        sampled = sample_random_prefixes(self.model, 10 * count, tokens=settings.prefix_tokens, seed=0)
        good = [ids for ids in sampled if all(self._reads_the_same(ids, case) for case in self.cases)]
        if len(good) < count:
            raise SystemExit(f"only {len(good)} of {len(sampled)} random prefixes read the same as text")
        return good[:count]

    def _reads_the_same(self, ids: list[int], case: Case) -> bool:
        text = self.model.decode(ids)
        expected = encode_with_subject(self.model, case.question, len(case.question), random_prefix=ids).ids
        whole = f"{text}. {case.question}"
        return not set("{}") & set(text) and tuple(self.model.encode(whole)) == expected

    def _ours(self, own: Comparison, editor: Editor[Any], batch: Sequence[Case]) -> Measured:
        if own.method == "wise":
            editor.prepare([self._unrelated(batch[0])], advance=ignore)
        before = {name: weight.clone() for name, weight in self._weights(editor).items()}
        self.passes = 0
        started = time.process_time()
        editor.apply(batch)
        spent, passes = time.process_time() - started, self.passes
        questions = [Question(case.question, case.answer) for case in batch]
        right = [reply.token_match or 0.0 for reply in ask(self.model, questions, PRESETS["synthetic"])]
        change = {name: weight - before[name] for name, weight in self._weights(editor).items()}
        if own.method == "grace":
            change = {f"value{'' if own.at_once == 1 else row}": value[None].clone()
                      for row, value in enumerate(editor.codebook.values)}  # type: ignore[attr-defined]  # fmt: skip
        if own.method == "wise":
            change = {"copy": editor.router.copies[-1].change.clone()}  # type: ignore[attr-defined]
        editor.restore()
        return Measured(spent, passes, right, change)

    def _theirs(self, own: Comparison, editor: Any, other: Peer, batch: Sequence[Case], *, short: bool) -> Measured:
        """If `short`, with only one step: enough for one-time computations."""
        requests = [self._request(own, editor, part) for part in _parts(own, batch)]
        for request in requests if short else ():
            request["hparams"] |= {name: 1 for name in _STEPS if name in request["hparams"]}
        made = [other.edit(request) for request in requests]
        change = {
            name + ("" if len(made) == 1 else str(row)): tensor
            for row, one in enumerate(made)
            for name, tensor in one.change.items()
        }
        if own.at_once > 1 and own.method == "grace" and len(made) == 1:
            change = {f"{name}0": tensor for name, tensor in change.items()}
        right = [share for one in made for share in one.right]
        return Measured(sum(one.seconds for one in made), sum(one.passes for one in made), right, change)

    def _request(self, own: Comparison, editor: Any, cases: Sequence[Case]) -> dict[str, Any]:
        common = {
            "model_name": str(self.folder),
            "device": "cpu",
            "rewrite_module_tmp": "model.layers.{}.mlp.down_proj",
            "layer_module_tmp": "model.layers.{}",
            "mlp_module_tmp": "model.layers.{}.mlp",
            "attn_module_tmp": "model.layers.{}.self_attn",
            "ln_f_module": "model.norm",
            "lm_head_module": "model.embed_tokens" if self.model.module.config.tie_word_embeddings else "lm_head",
        }
        request = {
            "method": own.method,
            "hparams": own.hparams(editor, common),
            "requests": [
                {"case_id": case.case_id, "prompt": case.question, "subject": case.fact.subject_label,
                 "target_new": case.answer, "loc_prompt": self._unrelated(case).question}
                for case in cases
            ],
            "options": {"reset_cache": True} if own.method == "alphaedit" else {},
            "prefixes": [],
            "seed": seed_for(0, cases[:1]),
        }  # fmt: skip
        if isinstance(editor, LocateThenEdit):
            request["prefixes"] = [self.model.decode(ids) for ids in editor.random_prefixes()]
        if own.method == "wise":
            request |= {"prefixes": editor.prefixes_of_prompts(), "mask": str(self._mask(editor))}
        return request

    def _mask(self, editor: Any) -> Path:
        path = self.scratch / "mask.safetensors"
        weight = self.model.blocks[editor.layer].down_projection.weight
        save_tensors(path, {"mask": random_mask(weight, share=editor.settings.share, seed=1)})
        return path

    def _unrelated(self, case: Case) -> KnownFact:
        """The same known fact for both sides, about another subject and shorter than the edit's longest prompt."""
        other = [fact for fact in self.known if fact.fact.property != case.fact.property]
        return min(other[:50], key=lambda fact: (len(fact.question), fact.question))

    def _weights(self, editor: Editor[Any]) -> dict[str, torch.Tensor]:
        layers = getattr(editor, "layers", ())
        return {
            f"{self.model.blocks[layer].down.name}.weight": self.model.blocks[layer].down_projection.weight.detach()
            for layer in layers
        }

    def _count(self, *_: Any) -> None:
        self.passes += torch.is_grad_enabled()


_DECAY = 1e-5
"""Settings of EasyEdit's optimizer in WISE, which has no alternative."""

_STEPS = ("num_steps", "v_num_grad_steps", "n_iter")
"""EasyEdit's names for the number of steps."""


def _parts(own: Comparison, batch: Sequence[Case]) -> list[Sequence[Case]]:
    return [batch] if own.batches else [[case] for case in batch]


def _row(own: Comparison, theirs: Sequence[Measured], ours: Sequence[Measured], *, edits: int, runs: int) -> str:
    """One row of the table, with medians over runs; changes of batches are compared call by call."""
    calls = len(ours) // runs
    spent = [
        [sum(one.seconds for one in side[first : first + calls]) / edits for first in range(0, len(side), calls)]
        for side in (theirs, ours)
    ]
    slow, quick = map(_spread, spent)
    faster = [one / other for one, other in zip(*spent, strict=True)]
    edits *= runs
    right = [sum(sum(one.right) for one in side) / edits for side in (theirs, ours)]
    passes = [sum(one.passes for one in side) / edits for side in (theirs, ours)]
    ratios, cosines = [], []
    for one, other in zip(theirs, ours, strict=True):
        if one.change.keys() != other.change.keys():
            raise SystemExit(f"{own.method}: {sorted(one.change)} and {sorted(other.change)} were changed")
        a, b = (
            torch.cat([side.change[name].flatten().double() for name in sorted(one.change)]) for side in (one, other)
        )
        ratios.append(float(b.norm() / a.norm()))
        cosines.append(float(a @ b / (a.norm() * b.norm())))
    kept = "kept" if median(faster) >= own.goal else "missed"
    return (
        f"| {own.name(edits // runs)} | {edits} | {slow} | {quick} | {_spread(faster)} | {own.goal:g} {kept} | "
        f"{passes[0]:.1f}, {passes[1]:.1f} | {right[0]:.2f}, {right[1]:.2f} | "
        f"{min(ratios):.3f} to {max(ratios):.3f} | {min(cosines):.4f} |"
    )


def _spread(values: Sequence[float]) -> str:
    """Median with the range."""
    middle = f"{median(values):.2f}"
    return middle if len(values) == 1 else f"{middle} [{min(values):.2f}, {max(values):.2f}]"


HEADER = (
    "| method | edits | EasyEdit, s | kgedit, s | ratio | goal | passes | right | size of the change | cosine of the "
    "changes |\n|---|---|---|---|---|---|---|---|---|---|"
)
"""CPU seconds per edit, with the range over runs; forward passes with gradients of both sides, and their shares of
target tokens that are correct under teacher forcing; kgedit's change relative to EasyEdit's; the lowest cosine of the
two."""


def compare_all(
    model: LanguageModel,
    methods: Sequence[str],
    *,
    cases: Sequence[Case],
    known: Sequence[KnownFact],
    edits: int,
    checkout: Path,
    python: str,
    scratch: Path,
) -> None:
    """Print the table of all methods that EasyEdit also has.

    Args:
        methods: Methods to measure; empty means all.
        cases: Edits to measure, and one more.
        edits: Number of edits of one run, a divisor of the number to measure.
        checkout: EasyEdit's repository.
        python: Interpreter for EasyEdit.
        scratch: An empty folder.
    """
    chosen = [own for own in COMPARISONS if not methods or own.method in methods]
    both = SideBySide(model, scratch, cases, known, edits=edits)
    print(HEADER, flush=True)
    with peer(checkout, python, both.folder, scratch, both.statistics(chosen)) as other:
        for own in chosen:
            print(both.compare(own, other), flush=True)
