"""Losses of targets."""

from __future__ import annotations

import pytest
import torch
from world.small_models import small_model
from world.small_timestep import write_timestep

from kgedit.llm.language_model import LanguageModel
from kgedit.llm.targets import encode_targets, target_loss
from kgedit.records.cases import Case


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    return list(write_timestep(tmp_path_factory.mktemp("timestep")).cases())


def _loss(model: LanguageModel, cases: list[Case]) -> float:
    with torch.no_grad():
        losses = []
        for case in cases:
            prompt, target = model.encode(case.question), model.encode_target(case.answer)
            logits = model.module(torch.tensor([prompt + target])).logits[0, len(prompt) - 1 : -1]
            losses.append(torch.nn.functional.cross_entropy(logits.float(), torch.tensor(target)).item())
        return sum(losses) / len(losses)


def test_target_loss_is_that_of_each_line_alone(cases: list[Case]) -> None:
    model = small_model()
    targets = encode_targets(model, [(case.question, case.answer) for case in cases], learn_end=False)
    loss = target_loss(model.forward(targets.ids, targets.mask, last=targets.last).logits, targets)

    assert loss.item() == pytest.approx(_loss(model, cases), rel=1e-5)
