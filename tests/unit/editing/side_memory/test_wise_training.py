"""WISE's training of a copy against its definition, written out plainly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.functional import log_softmax, pad, silu
from world.small_models import small_model

from kgedit.editing import make_editor
from kgedit.editing.side_memory.side_copies import random_mask
from kgedit.editing.side_memory.wise import Wise
from kgedit.progress import ignore
from kgedit.records.cases import Case
from kgedit.timesteps.timestep import Timestep

AS_THE_CODE = {"counted": "read", "one_token_more": True, "threshold": "mean"}


def _editor(timestep: Timestep, **given: Any) -> Wise:
    plain = {"layer": 1, "steps": 4, "prefixes": 4, "learning_rate": 0.2, "unit": 0.1, "margin_weight": 1.0}
    editor = make_editor("wise", small_model(), plain | {"alpha": 0.5, "decay": 1e-3, "clamp": 0.05} | given, seed=7)
    editor.prepare(timestep.known_facts(), advance=ignore)
    return editor


class _Definition:
    """One edit of one copy: every text read whole at every step, the layer's weight replaced by the copy."""

    def __init__(self, editor: Wise, case: Case) -> None:
        self.settings, self.model = editor.settings, small_model()
        prompts = [case.question, *(f"{prefix} {case.question}" for prefix in editor.prefixes_of_prompts())]
        (unrelated,) = editor._draw([case], editor._unrelated([case]))
        self.target = self.model.encode(f" {case.answer}")
        rows = [self.model.encode(prompt) + self.target for prompt in prompts] + [self.model.encode(unrelated)]
        self.ids = torch.stack([_padded(row, max(map(len, rows)), 0) for row in rows])
        self.real = torch.stack([_padded([1] * len(row), len(self.ids[0]), 0) for row in rows])
        self.is_prompt = self.real.bool()
        self.is_prompt[:-1, -len(self.target) :] = False
        self.is_subject = torch.tensor([self._in_subject(row, case.fact.subject_label) for row in self.ids.tolist()])
        self.layer = self.model.blocks[1].down_projection
        self.weight = self.layer.weight.detach().clone()
        self.copy = torch.nn.Parameter(self.weight.clone())

    def _in_subject(self, row: list[int], subject: str) -> list[bool]:
        """By the texts of longer and longer beginnings."""
        ends = [len(self.model.decode(row[: count + 1])) for count in range(len(row))]
        start = self.model.decode(row).find(subject)
        inside = range(start, start + len(subject)) if start >= 0 else range(0)
        return [bool(set(inside) & set(range(*span))) for span in zip([0, *ends], ends, strict=False)]

    def read(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits, and |act(W'x) - act(Wx)| of each token."""
        inputs: list[torch.Tensor] = []
        hook = self.layer.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
        name = f"{self.model.blocks[1].down.name}.weight"
        logits = torch.func.functional_call(
            self.model.module, {name: self.copy}, (self.ids,), {"attention_mask": self.real}
        ).logits
        hook.remove()
        moved = silu(inputs[0] @ self.copy.T) - silu(inputs[0] @ self.weight.T)
        return logits, moved.norm(dim=-1)

    def loss(self) -> torch.Tensor:
        logits, moved = self.read()
        count = len(self.target)
        likely = log_softmax(logits[:-1, -count - 1 : -1], -1)
        answer = -torch.stack([row[range(count), self.target].sum() for row in likely])
        counted = self.is_prompt | (self.settings.counted == "read")
        distances = _mean(moved, counted)
        near, far = distances[:-1], distances[-1:]
        if self.settings.subject_mask:
            near = _mean(moved[:-1], self.is_subject[:-1])
            far = _mean(moved[:-1], (counted & ~self.is_subject)[:-1])
        alpha, beta, gamma = (0.1 * edge for edge in (self.settings.alpha, self.settings.beta, self.settings.gamma))
        loss = (answer / (count + self.settings.one_token_more)).mean()
        for violated in (far[:, None] - near + gamma, far - alpha, beta - near):
            if (violated > 0).any():
                loss = loss + violated[violated > 0].mean()
        return loss

    def train(self, mask: torch.Tensor) -> None:
        rate, bound = 0.2, 0.05
        descent = torch.optim.SGD([self.copy], lr=rate, weight_decay=1e-3 / rate)
        for _ in range(self.settings.steps):
            (self.copy.grad,) = torch.autograd.grad(self.loss(), [self.copy])
            self.copy.grad *= mask
            descent.step()
            self.copy.data.clamp_(self.weight - bound, self.weight + bound)

    def threshold(self) -> float:
        with torch.no_grad():
            moved = self.read()[1][:-1]
        if self.settings.threshold == "least":
            return 0.88 * float(_mean(moved, self.is_prompt[:-1]).min())
        return 0.88 * float(moved.mean())


def _padded(row: list[int], width: int, filler: int) -> torch.Tensor:
    return pad(torch.tensor(row), (width - len(row), 0), value=filler)


def _mean(moved: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    return (moved * counted).sum(1) / counted.sum(1)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"one_token_more": True},
        {"counted": "read"},
        AS_THE_CODE,
        {"subject_mask": True},
        {"subject_mask": True, **AS_THE_CODE},
    ],
)
def test_a_copy_is_trained_as_defined_by_default_and_as_in_the_published_code(
    given: dict[str, object], timestep: Timestep
) -> None:
    case = next(iter(timestep.cases()))
    editor = _editor(timestep, **given)
    expected = _Definition(editor, case)
    expected.train(random_mask(expected.weight, share=0.2, seed=7 * 1_000_003 + 1))
    editor.apply([case])
    (copy,) = editor.router.copies

    torch.testing.assert_close(copy.change, (expected.copy - expected.weight).detach(), atol=2e-5, rtol=1e-3)
    if "counted" not in given or "threshold" in given:
        assert copy.threshold == pytest.approx(expected.threshold(), rel=1e-3)


def test_an_edit_whose_question_does_not_name_its_subject_has_no_subject_mask(timestep: Timestep) -> None:
    one, other = list(timestep.cases())[:2]
    nameless = replace(one, question="Who is the mayor?")
    editor = _editor(timestep, subject_mask=True, steps=1)
    applied = editor.apply([nameless, other])

    assert [(failure.case_id, failure.reason) for failure in applied.failures] == [
        (one.case_id, f"the subject '{one.fact.subject_label}' is not in the question 'Who is the mayor?'")
    ]
    assert editor.router.copies[0].shortest == len(editor.model.encode(other.question))
    assert editor.apply([nameless]).loss is None
    assert not _editor(timestep, steps=1).apply([nameless]).failures
