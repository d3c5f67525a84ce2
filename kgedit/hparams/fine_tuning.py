"""Settings of fine-tuning one MLP matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kgedit.hparams.settings import Settings, setting
from kgedit.llm.surgery.layers import choose_layer
from kgedit.records.runs import Setting

if TYPE_CHECKING:
    from kgedit.llm.language_model import LanguageModel

_GPT2_XL = 6400
"""Inner units of GPT-2 XL."""


class FineTuningSettings(Settings):
    """Hyperparameters of fine-tuning one matrix."""

    layer: int = setting("block whose matrix is trained", derived="by `depth`", ge=0)
    depth: float = setting("block as a fraction of all blocks: 20 of 32", default=0.65, ge=0, le=1, instead_of="layer")
    steps: int = setting("most steps of Adam per call", default=25, ge=1)
    learning_rate: float = setting("of Adam, fresh at each call", derived="by width", gt=0)
    stop_loss: float = setting("a call ends at this loss", default=1e-2, ge=0)
    learn_end: bool = setting("whether the end of text is part of the target", default=False)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:
        """Layer by depth, learning rate by width."""
        layer = choose_layer(model, layer=known.get("layer"), depth=known["depth"])
        return {"layer": layer, "learning_rate": _learning_rate(model.blocks[layer].inner_width)}


class FtlSettings(FineTuningSettings):
    """Hyperparameters of FT-L."""

    norm: float = setting("furthest that a weight may move per call", derived="by width, 5e-4 at 6,400 units", gt=0)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:
        """The bound too."""
        values = super().derive(model, known)
        layer = choose_layer(model, layer=known.get("layer"), depth=known["depth"])
        return {**values, "norm": _norm(model.blocks[layer].inner_width)}


class FtmSettings(FineTuningSettings):
    """Hyperparameters of FT-M."""

    norm: float | None = setting(
        "furthest that a weight may move per call; null: as published for the model, else any distance",
        default=None,
        gt=0,
    )


class LocFtSettings(FineTuningSettings):
    """Hyperparameters of LocFT-BF."""

    depth: float = setting("block as a fraction of all blocks: 22 of 32", default=0.69, ge=0, le=1, instead_of="layer")
    steps: int = setting("most epochs per call", default=25, ge=1)
    stop_loss: float = setting(
        "a step is left out at this loss; a call ends after an epoch of this mean loss", default=1e-2, ge=0
    )
    learn_end: bool = setting("whether the end of text is part of the target", default=True)
    batch: int = setting("examples per step of Adam", default=100, ge=1)


def _learning_rate(inner_width: int) -> float:
    """The published 5e-4 from 6,400 inner units (GPT-2 XL) up; more below, since a step of Adam moves the output of a
    layer by about the learning rate times its inputs. (SmolLM2-135M, 25 steps: loss 1.1 at 5e-4, 0.01 at 2e-3.)
    """
    return 5e-4 * max(1.0, _GPT2_XL / inner_width)


def _norm(inner_width: int) -> float:
    """What was published for GPT-2 XL and for the wider GPT-J and Mistral.

    Below GPT-2 XL it grows as the learning rate does, so that the box stays one step of Adam wide: with 5e-4
    SmolLM2-135M cannot move at all (loss 7.6 after 25 steps).
    """
    return 5e-4 * _GPT2_XL / inner_width if inner_width <= _GPT2_XL else 5e-5
