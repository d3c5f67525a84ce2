"""Losses of targets."""

from __future__ import annotations

import pytest
import torch
from world.small_models import small_model
from world.small_timestep import write_timestep

from kgedit.llm.language_model import LanguageModel
from kgedit.llm.targets import encode_targets, prompt_last_loss, target_loss
from kgedit.records.cases import Case

LOSSES = (target_loss, prompt_last_loss)


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


def test_the_last_tokens_of_targets_can_be_left_out(cases: list[Case]) -> None:
    model = small_model()
    pairs = [(case.question, case.answer) for case in cases]
    whole = encode_targets(model, pairs, learn_end=False)
    short = whole.without_last()
    found, expected = (
        [function(model.forward(own.ids, own.mask, last=own.last).logits, own) for function in LOSSES]
        for own in (short, whole)
    )

    assert short.ids.shape[1] == whole.ids.shape[1] - 1
    assert torch.equal(short.ends, whole.ends)
    assert torch.equal(short.rows(1, 2).ends, whole.ends[1:2])
    assert torch.equal(short.predicting, whole.predicting[:, :-1])
    assert torch.allclose(torch.stack(found), torch.stack(expected), rtol=1e-5)
