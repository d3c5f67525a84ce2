"""Settings of fine-tuning and of low-rank adapters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kgedit.editing.hparams.locate_then_edit import KNOWN_FACTS, LayerList
from kgedit.editing.hparams.settings import Settings, setting
from kgedit.llm.surgery.layers import blocks_between, choose_layer, parse_layers
from kgedit.records.runs import Setting

if TYPE_CHECKING:
    from kgedit.llm.language_model import LanguageModel

_GPT2_XL = 6400
"""Number of inner units of GPT-2 XL."""


class TrainingSettings(Settings):
    """Hyperparameters of training down-projections with Adam."""

    steps: int = setting("maximum steps of Adam per call", default=25, ge=1)
    learning_rate: float = setting("learning rate of Adam, which restarts at each call", derived="by width", gt=0)
    stop_loss: float = setting("loss at which a call ends", default=1e-2, ge=0)
    learn_end: bool = setting("whether the end of text is part of the target", default=False)

    @property
    @abstractmethod
    def trained_blocks(self) -> tuple[int, ...]:
        """Blocks whose matrices are trained, lowest first."""


class FineTuningSettings(TrainingSettings):
    """Hyperparameters of fine-tuning one matrix."""

    layer: int = setting("block whose matrix is trained", derived="by `depth`", ge=0)
    depth: float = setting("block as a fraction of all blocks: 20 of 32", default=0.65, ge=0, le=1, instead_of="layer")

    @property
    def trained_blocks(self) -> tuple[int, ...]:
        """The only trained block."""
        return (self.layer,)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:
        """Derive the layer from the depth and the learning rate from the width."""
        return _layer_and_rate(model, known)


class FtlSettings(FineTuningSettings):
    """Hyperparameters of FT-L."""

    norm: float = setting("maximum change of a weight per call", derived="by width, 5e-4 at 6,400 units", gt=0)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:
        """Also derives the bound."""
        values = super().derive(model, known)
        layer = choose_layer(model, layer=known.get("layer"), depth=known["depth"])
        return {**values, "norm": _norm(model.blocks[layer].inner_width)}


class FtmSettings(FineTuningSettings):
    """Hyperparameters of FT-M."""

    norm: float | None = setting(
        "maximum change of a weight per call; null: as published for the model, else unlimited",
        default=None,
        gt=0,
    )


class BreadthFirstSettings(TrainingSettings):
    """Hyperparameters of training in epochs over all edits of a call."""

    steps: int = setting("maximum epochs per call", default=25, ge=1)
    stop_loss: float = setting(
        "steps with at most this loss are skipped; a call ends after an epoch with at most this mean loss",
        default=1e-2,
        ge=0,
    )
    learn_end: bool = setting("whether the end of text is part of the target", default=True)
    batch: int = setting("examples per step of Adam", default=100, ge=1)
    least_steps: int = setting(
        "steps of Adam that a call with few edits may take until `stop_loss`, in smaller batches or more epochs; "
        "0: as published",
        default=100,
        ge=0,
    )


class LocFtSettings(BreadthFirstSettings):
    """Hyperparameters of LocFT-BF."""

    layer: int = setting("block whose matrix is trained", derived="by `depth`", ge=0)
    depth: float = setting("block as a fraction of all blocks: 22 of 32", default=0.69, ge=0, le=1, instead_of="layer")
    blocks: int = setting(
        "blocks whose matrices are trained together: `layer` and those directly below it, as far as there are any; "
        "1: as published",
        default=1,
        ge=1,
    )
    matrices: Literal["down", "all"] = setting(
        "trained matrices of a block: the down-projection of its MLP, as published, or those of all its linear layers",
        default="down",
    )
    rehearse: int = setting(
        "known facts that each step trains as well, drawn from those that no question of the run asks for, so that the "
        "model keeps what it knows; 0: none, as published",
        default=0,
        ge=0,
    )

    @property
    def trained_blocks(self) -> tuple[int, ...]:
        """`layer` and the blocks below it, `blocks` in all."""
        return tuple(range(max(0, self.layer - self.blocks + 1), self.layer + 1))

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:
        """Derive the layer from the depth and the learning rate from the width."""
        return _layer_and_rate(model, known)


class CrispEditSettings(BreadthFirstSettings):
    """Hyperparameters of CrispEdit."""

    layers: LayerList = setting("blocks whose matrices are trained, such as 19-23", derived="by depth")
    batch: int = setting("examples per step of Adam", default=32, ge=1)
    project: Literal["gradient", "step", "none"] = setting(
        "what is projected away from the directions that text depends on: each gradient, as published; each step of "
        "Adam; or nothing, which is LocFT-BF",
        default="gradient",
    )
    share: float = setting("gamma: share of the curvature whose directions are excluded", default=0.9, gt=0, le=1)
    corpus: str = setting(
        "text of the curvature: known_facts, sample or prose, as for MEMIT, or the path of a text, .jsonl or .parquet "
        "file",
        default=KNOWN_FACTS,
    )
    tokens: int = setting("maximum tokens of that text", default=51_200, ge=2)
    length: int = setting("tokens per row of that text", default=512, ge=2)
    history: bool = setting("whether the curvature of past edits is added to that of the text", default=True)
    chunk: int = setting("past edits added at once, after which the directions are recomputed", default=100, ge=1)
    moved: float | None = setting(
        "relative change of a matrix (norm) at which a call first recomputes the curvature of the text on the edited "
        "model; 0.25 in the official code if enabled; null: never",
        default=None,
        gt=0,
    )

    @property
    def trained_blocks(self) -> tuple[int, ...]:
        """The blocks of the setting `layers`."""
        return parse_layers(self.layers)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:  # noqa: ARG003 - one signature for all
        """Derive the blocks from the depth (19-23 of 32) and the learning rate from their width."""
        blocks = blocks_between(model, first=0.6, last=0.72)
        rate = _learning_rate(model.blocks[blocks[0]].inner_width)
        return {"layers": f"{blocks[0]}-{blocks[-1]}", "learning_rate": rate}


class ContinualSettings(BreadthFirstSettings):
    """Hyperparameters of the continual fine-tuning baselines, which train every block."""

    layers: LayerList = setting("blocks whose parameters are trained, such as 4-8", derived="all")
    batch: int = setting("examples per step of Adam; 32 in WikiBigEdit's fine-tuning", default=32, ge=1)

    _rate_of_7b: ClassVar[float] = 1e-5
    """Learning rate from 4,096 units up, as usual in full fine-tuning of 7B models. (`tiny`, 40 edits, update and
    unchanged in %, teacher-forced: half of it 53 and 71, 1e-5 87 and 52, twice 90 and 35.)"""

    @property
    def trained_blocks(self) -> tuple[int, ...]:
        """The blocks of the setting `layers`."""
        return parse_layers(self.layers)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:  # noqa: ARG003 - one signature for all
        """All blocks; a learning rate inversely proportional to the model's width, constant from 4,096 units up."""
        width = model.module.config.get_text_config().hidden_size
        return {"layers": f"0-{len(model.blocks) - 1}", "learning_rate": cls._rate_of_7b * max(1.0, 4096 / width)}


class GaLoreSettings(ContinualSettings):
    """Hyperparameters of GaLore, those of its fine-tuning by default."""

    learning_rate: float = setting("of Adam, multiplied by `scale`", derived="by width", gt=0)
    _rate_of_7b: ClassVar[float] = 2e-5

    rank: int = setting("singular vectors of a gradient that are kept", default=4, ge=1)
    scale: float = setting("alpha: factor of each projected step", default=4.0, gt=0)
    refresh: int = setting("T: steps after which the singular vectors are computed again", default=200, ge=1)


class BitFitSettings(ContinualSettings):
    """Hyperparameters of BitFit."""

    add_biases: bool = setting(
        "whether linear layers get biases of zeros where the model's blocks have none (Llama, Mistral); "
        "false: such a model is refused",
        default=True,
    )

    _rate_of_7b: ClassVar[float] = 3e-4
    """`tiny` answers nothing at 1e-3."""


class LnTuningSettings(ContinualSettings):
    """Hyperparameters of LN-tuning."""

    _rate_of_7b: ClassVar[float] = 3e-4
    """SmolLM2-135M, two calls of 10 edits: first edits after both 72 % at 3e-4, 32 % at 1e-3."""


class EwcSettings(ContinualSettings):
    """Hyperparameters of elastic weight consolidation."""

    penalty: float = setting("lambda: weight of the penalty; 0: plain fine-tuning", default=400.0, ge=0)
    fisher_examples: int = setting("most edits of a call that its Fisher information is computed on", default=200, ge=1)


class SynapticSettings(ContinualSettings):
    """Hyperparameters of synaptic intelligence."""

    penalty: float = setting("c: weight of the penalty; 0: plain fine-tuning", default=0.1, ge=0)
    damping: float = setting("xi: added to a parameter's squared change per call", default=0.1, gt=0)


def _layer_and_rate(model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:
    layer = choose_layer(model, layer=known.get("layer"), depth=known["depth"])
    return {"layer": layer, "learning_rate": _learning_rate(model.blocks[layer].inner_width)}


def _learning_rate(inner_width: int) -> float:
    """Learning rate: the published 5e-4 for at least 6,400 inner units (GPT-2 XL), higher for fewer.

    A step of Adam moves the output of a layer by about the learning rate times its inputs. (SmolLM2-135M, 25 steps:
    loss 1.1 at 5e-4, 0.01 at 2e-3.)
    """
    return 5e-4 * max(1.0, _GPT2_XL / inner_width)


def _norm(inner_width: int) -> float:
    """Bound: as published for GPT-2 XL and for the wider GPT-J and Mistral.

    For smaller models it grows with the learning rate, so that the box stays one step of Adam wide: with 5e-4
    SmolLM2-135M cannot change at all (loss 7.6 after 25 steps).
    """
    return 5e-4 * _GPT2_XL / inner_width if inner_width <= _GPT2_XL else 5e-5


class LoraSettings(Settings):
    """Hyperparameters of an adapter; defaults as in WikiBigEdit, which does not state a learning rate."""

    rank: int = setting("rank of the adapter", default=4, ge=1)
    alpha: int = setting("scale of the update, as alpha / rank", default=8, ge=1)
    dropout: float = setting("share of the adapter's inputs dropped in training", default=0.1, ge=0, le=0.9)
    epochs: int = setting("epochs over the edits of a call", default=10, ge=1)
    batch: int = setting("examples per step", default=32, ge=1)
    least_steps: int = setting(
        "minimum steps of Adam per call; few edits are split into smaller batches; 0: as published",
        default=100,
        ge=0,
    )
    shuffle: bool = setting("whether the examples are shuffled in each epoch", default=True)
    learning_rate: float = setting("peak learning rate of Adam", derived="by width", gt=0)
    warmup: float = setting("share of the steps in which the learning rate rises", default=0.1, ge=0, le=1)
    max_grad_norm: float | None = setting(
        "maximum norm of the gradients of a step, or null for none; longer ones are scaled down", default=1.0, gt=0
    )
    recompute: bool = setting(
        "whether blocks are recomputed in the backward pass instead of stored: less memory, a third more time",
        default=False,
    )
    learn_end: bool = setting("whether the end of text is part of the target", default=True)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:  # noqa: ARG003 - one signature for all
        """Learning rate of 1e-3 from width 4,096 up, and proportionally higher below, up to 1e-2.

        (SmolLM2-135M, width 576, 10 edits: teacher-forced 0.29 at 2e-3, 0.61 at 1e-2. `tiny`, width 128, 131 edits
        merged: locality falls from 88 % to 76 % at 1e-2 and to nothing at 3.2e-2.)
        """
        width = model.module.config.get_text_config().hidden_size
        return {"learning_rate": min(1e-2, 1e-3 * max(1.0, 4096 / width))}


class LoraMergeSettings(LoraSettings):
    """Hyperparameters of the adapter and of the merge."""

    share: float = setting(
        "1 - alpha: weight of what was just trained; before is weighted alpha", default=0.25, ge=0, le=1
    )
    into: Literal["weights", "adapter"] = setting(
        "what is interpolated: the model's matrices, with a new adapter for each call (WikiBigEdit, appendix C.4); or "
        "the two factors of one adapter that is trained on, with those before the call (section 4.4)",
        default="weights",
    )
