"""Settings of MEND, UltraEdit and StableEdit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from kgedit.editing.hparams.settings import Settings, readable_by, setting
from kgedit.llm.surgery.layers import MATRICES_MEANING, blocks_between, check_layers, parse_matrices, parse_roles
from kgedit.records.runs import Setting

if TYPE_CHECKING:
    from kgedit.llm.language_model import LanguageModel

Roles = Annotated[str, readable_by(parse_roles)]
MatrixList = Annotated[str, readable_by(parse_matrices)]


class MendSettings(Settings):
    """Hyperparameters of MEND."""

    blocks: int = setting("number of last blocks whose matrices are edited", default=3, ge=1)
    matrices: Roles = setting(MATRICES_MEANING, default="up,down")
    rank: int = setting("rank of the network's two layers", default=256, ge=1)
    edit_rate: float = setting("learning rate of an edit before training", default=1e-4, gt=0)
    network: str = setting("path of a trained network; empty: train one", default="")
    train_file: str = setting(
        "file of edits that the network is trained on, in any form that --edits reads, such as MEND's training set of "
        "ZsRE; empty: the timestep's known facts",
        default="",
    )
    train_steps: int = setting(
        "number of training edits of the network", derived="1,000 on a CPU, 20,000 on a GPU", ge=0
    )
    learning_rate: float = setting("learning rate of Adam on the network", default=3e-4, gt=0)
    rate_speed: float = setting("learning rate of Adam on the logarithms of the edit rates", default=0.03, gt=0)
    edit_weight: float = setting("weight of the answer's loss relative to the divergence", default=0.1, gt=0)
    learn_end: bool = setting("whether the end of text is part of the target", default=False)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:  # noqa: ARG003 - one signature for all
        """Training length by device: a step of SmolLM2-135M takes half a second on one core."""
        return {"train_steps": 1_000 if model.device.type == "cpu" else 20_000}


class UltraEditSettings(Settings):
    """Hyperparameters of UltraEdit."""

    layers: MatrixList = setting(
        "edited blocks such as 18-26, or matrices of blocks such as 11-15.gate,18-24.up",
        derived="from `first` to `last`",
    )
    first: float = setting("lowest edited block as a fraction of all", default=0.6, ge=0, le=1, instead_of="layers")
    last: float = setting("highest edited block as a fraction of all", default=0.9, ge=0, le=1, instead_of="layers")
    matrices: Roles = setting(MATRICES_MEANING, default="down")
    learning_rate: float = setting("scale of the values", derived="by width", gt=0)
    batch: int = setting("edits per backward pass and solve", default=100, ge=1)
    warm_up: int = setting("known facts that enter the statistics before the first edit", default=0, ge=0)
    learn_end: bool = setting("whether the end of text is part of the target", default=False)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:
        """Derive the blocks from the depth, and the learning rate from the width of the lowest one."""
        if (layers := known.get("layers")) is None:
            blocks = blocks_between(model, first=known["first"], last=known["last"])
            layers = f"{blocks[0]}-{blocks[-1]}"
        lowest = min(block for block, _ in parse_matrices(layers, known["matrices"]))
        check_layers(model, [lowest])
        return {"layers": layers, "learning_rate": _learning_rate(model.blocks[lowest].inner_width)}


class StableEditSettings(UltraEditSettings):
    """Hyperparameters of StableEdit."""

    warm_up: int = setting("known facts edited into the model before the first edit", default=2000, ge=0)
    penalty: float = setting("alpha: weight of the size of the change", default=10.0, gt=0)
    floor: float = setting("minimum eigenvalue of the covariance of gradients", default=1e-6, gt=0)


def _learning_rate(inner_width: int) -> float:
    """Scale: the published 1e-6 for at least 14,336 inner units (Llama-3-8B), higher for fewer.

    (SmolLM2-135M, 1,536 units, 20 CounterFact edits: teacher-forced 0 at 1e-5, 0.65 at 2e-4, 0.85 at 5e-4, where
    locality falls from 0.6 to 0.25.)
    """
    widened: float = max(1.0, 14336 / inner_width) ** 2.5
    return 1e-6 * widened
