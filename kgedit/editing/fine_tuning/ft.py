"""`ft`, `ft_l`, `ft_m`, `locft_bf`: fine-tuning of one MLP down-projection.

`ft` predicts every target token at the prompt's last token (FT), `ft_l` also bounds the change of each weight per call
(FT-L), `ft_m` trains on the answer with the prompt masked (FT-M), and `locft_bf` trains breadth first (LocFT-BF).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kgedit.editing.editor import Capabilities
from kgedit.editing.fine_tuning.editor import BreadthFirstTuning, MatrixTuning, PromptLastTuning
from kgedit.editing.hparams.fine_tuning import FineTuningSettings, FtlSettings, FtmSettings, LocFtSettings
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.matrices import EditedParameter
from kgedit.llm.surgery.structure import is_linear
from kgedit.progress import Advance
from kgedit.records.cases import KnownFact


class FineTuning(PromptLastTuning[FineTuningSettings]):
    """Trains one MLP matrix without a bound on weight changes."""

    capabilities = Capabilities(
        protocols=("sequential", "single", "per_timestep"),
        changes_weights=True,
        source="the baseline FT of ROME, arXiv 2202.05262 appendix E.1",
    )
    settings_type = FineTuningSettings


class ClampedFineTuning(PromptLastTuning[FtlSettings]):
    """Trains one MLP matrix with an L-infinity bound on the change of weights per call."""

    capabilities = Capabilities(
        protocols=("sequential", "single", "per_timestep"),
        changes_weights=True,
        source="FT+L, arXiv 2012.00363; as the baseline of ROME, arXiv 2202.05262 appendix E.1",
    )
    settings_type = FtlSettings

    @property
    def norm(self) -> float:
        """The setting `norm`."""
        return self.settings.norm


class MaskedFineTuning(MatrixTuning[FtmSettings]):
    """Trains one MLP matrix by the mean cross-entropy of the target tokens, with the prompt masked."""

    capabilities = Capabilities(
        protocols=("sequential", "single", "per_timestep"),
        changes_weights=True,
        source="FT-M, arXiv 2401.01286 section 3",
    )
    settings_type = FtmSettings

    @property
    def norm(self) -> float | None:
        """The setting `norm`."""
        return self.settings.norm


class BreadthFirstFineTuning(BreadthFirstTuning[LocFtSettings], MatrixTuning[LocFtSettings]):
    """Trains one MLP matrix in epochs over all edits of a call, shuffled in each epoch.

    With `blocks` and `matrices`, it trains more matrices. With `rehearse`, each step also trains known facts, so that
    the model does not lose them to the edits.
    """

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        needs_known_facts=True,
        resumes_calls=True,
        source="LocFT-BF, arXiv 2509.22072",
    )
    settings_type = LocFtSettings

    def __init__(
        self, model: LanguageModel, settings: LocFtSettings, *, contexts: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self._known: list[tuple[str, str]] = []
        self._linear = dict(self._linear_layers()) if settings.matrices == "all" else {}

    @property
    def trained(self) -> Mapping[str, EditedParameter]:
        """One matrix per block, or with `matrices: all` every linear layer of the blocks by its full name."""
        return self._linear or super().trained

    def details(self) -> dict[str, Any]:
        """Full names of the trained matrices."""
        return {**super().details(), **({"matrices": list(self._linear)} if self._linear else {})}

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:  # noqa: ARG002 - takes no time
        """Write the known facts as questions in the contexts of the edits."""
        self._known = [
            (context.prompt(question), fact.answer)
            for fact in known
            for question in dict.fromkeys((fact.question, fact.rephrase or fact.question))
            for context in self.contexts
        ]

    def rehearsed(self, draw: random.Random) -> Sequence[tuple[str, str]]:
        """Draw as many known facts as set, or all if there are fewer."""
        return draw.sample(self._known, min(self.settings.rehearse, len(self._known)))

    def _linear_layers(self) -> Iterator[tuple[str, EditedParameter]]:
        inside = {module for layer in self.layers for module in self.model.blocks[layer].module.modules()}
        for name, module in self.model.module.named_modules():
            if module in inside and is_linear(module):
                yield name, EditedParameter(module, "weight")
