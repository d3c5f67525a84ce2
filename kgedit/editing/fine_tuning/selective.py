"""`bitfit` and `ln_tuning`: fine-tuning of the biases, or of the norms, of every block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from kgedit.editing.editor import Capabilities
from kgedit.editing.fine_tuning.editor import BreadthFirstTuning, EpochSettings
from kgedit.errors import SpecError
from kgedit.hparams.fine_tuning import BitFitSettings, LnTuningSettings
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.matrices import EditedParameter
from kgedit.llm.surgery.structure import is_linear, is_norm


class SelectiveTuning(BreadthFirstTuning[EpochSettings]):
    """Trains the parameters of `chosen`, in epochs over all edits of a call."""

    def __init__(
        self, model: LanguageModel, settings: EpochSettings, *, contexts: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self._trained = {f"{name}.{own}": EditedParameter(layer, own) for name, layer, own in self.chosen()}

    @property
    def trained(self) -> Mapping[str, EditedParameter]:
        """Trained parameters by their full names in the model."""
        return self._trained

    def chosen(self) -> Iterator[tuple[str, nn.Module, str]]:
        """Full name of the layer, layer, and "weight" or "bias" of trained parameters; by default linear weights."""
        return ((name, layer, "weight") for name, layer in self.layers_within() if is_linear(layer))

    def layers_within(self) -> Iterator[tuple[str, nn.Module]]:
        """Layers of the trained blocks by full name, and norms outside of blocks if all blocks are trained."""
        blocks = [block.module for block in self.model.blocks]
        inside = {module for layer in self.layers for module in blocks[layer].modules()}
        every = {module for block in blocks for module in block.modules()}
        whole = len(self.layers) == len(blocks)
        for name, module in self.model.module.named_modules():
            if module in inside or (whole and module not in every and is_norm(module)):
                yield name, module

    def details(self) -> dict[str, Any]:
        """Trained blocks, and the number of trained parameters."""
        count = sum(parameter.before.numel() for parameter in self._trained.values())
        return {**super().details(), "layers": list(self.layers), "trained_parameters": count}


class BitFit(SelectiveTuning[BitFitSettings]):
    """Trains only the biases of linear layers and norms.

    If no block has a bias (Llama, Mistral), every linear layer of the blocks gets one of zeros, which does not change
    answers until it is trained. `--save-model` then also writes a memory, because transformers does not support these
    biases.
    """

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        resumes_calls=True,
        source="BitFit, arXiv 2106.10199",
    )
    settings_type = BitFitSettings

    def chosen(self) -> Iterator[tuple[str, nn.Module, str]]:
        """Biases.

        Raises:
            SpecError: if there are none and `add_biases` is false.
        """
        layers = list(self.layers_within())
        own = [(name, layer, "bias") for name, layer in layers if _has_bias(layer)]
        if own:
            return iter(own)
        if not self.settings.add_biases:
            raise SpecError(
                [
                    f"settings.add_biases: {self.model.name} has no biases for bitfit to train. Set it to true, or use "
                    "ln_tuning, which trains norms"
                ]
            )
        return ((name, layer, "bias") for name, layer in layers if is_linear(layer))

    @property
    def has_memory(self) -> bool:
        """Whether biases were added to the model."""
        return any(parameter.is_added for parameter in self.trained.values())

    def save_model(self, folder: Path) -> None:
        """Save the model without added biases, which its class does not support."""
        if not self.has_memory:
            super().save_model(folder)
            return
        state = self.state()
        self.restore()
        try:
            super().save_model(folder)
        finally:
            self.load_state(state)


class LnTuning(SelectiveTuning[LnTuningSettings]):
    """Trains only the weights and biases of norms, including the final one."""

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        resumes_calls=True,
        source="LNFit, arXiv 2308.09610",
    )
    settings_type = LnTuningSettings

    def chosen(self) -> Iterator[tuple[str, nn.Module, str]]:
        """Norms."""
        for name, layer in self.layers_within():
            if is_norm(layer):
                yield from ((name, layer, own) for own in ("weight", "bias") if getattr(layer, own, None) is not None)


def _has_bias(layer: nn.Module) -> bool:
    return (is_linear(layer) or is_norm(layer)) and getattr(layer, "bias", None) is not None
