"""Settings of ROME and its variants, and of MEMIT and its kin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from kgedit.hparams.settings import Settings, readable_by, setting
from kgedit.llm.surgery.layer_lists import parse_layers
from kgedit.records.runs import Setting

if TYPE_CHECKING:
    from kgedit.llm.language_model import LanguageModel

KNOWN_FACTS = "known_facts"
PROSE = "prose"
"""The text about nothing in particular that kgedit has."""

RELATIVE_THRESHOLD = 0.1
"""Share of C's trace that a null space may hold."""

_TOKENS_PER_DIMENSION = 26
_LEAST_TOKENS = 40_000

LayerList = Annotated[str, readable_by(parse_layers)]


class LocateSettings(Settings):
    """Hyperparameters of the search for values and of the statistics."""

    steps: int = setting("most steps of the value search", default=25, ge=1)
    learning_rate: float = setting("of the value search's Adam", derived="by width", gt=0)
    weight_decay: float = setting("weight of |d| / |v0|^2", default=1e-3, ge=0)
    clamp: float = setting("|d| stays below so many times |v0|", default=4.0, gt=0)
    drift_weight: float = setting('weight of KL(after | before) at "SUBJECT is a"', default=0.0625, ge=0)
    drift_at: Literal["end", "subject"] = setting(
        "where that is measured: at the end of the prompt, as in the paper, or at the subject's last token, as in "
        "ROME's and MEMIT's code",
        default="end",
    )
    stop_loss: float = setting("an edit's search ends at this loss", default=5e-2, ge=0)
    stop: Literal["loss", "target"] = setting(
        "which loss that is: the whole loss as published, or the target's mean loss alone", default="loss"
    )
    prompts: int = setting("prompts per edit: the bare one, and one behind each random prefix", default=6, ge=1)
    prefix_tokens: int = setting("tokens of a random prefix, which the model itself writes", default=10, ge=1)
    prefix_likeliest: int | None = setting(
        "each token of a random prefix is drawn from so many of the likeliest, 5 in the published code; null: from all",
        default=None,
        ge=1,
    )
    search_batch: int = setting("edits searched for in one batch", derived="by device", ge=1)
    corpus: str = setting(
        "text of the statistics: the timestep's known_facts, prose (pages that kgedit has), the path of a text, .jsonl "
        "or .parquet file; or several of these with commas between",
        default=KNOWN_FACTS,
    )
    tokens: int = setting(
        "most tokens of the statistics", derived="26 for each dimension of what is read, at least 40,000", ge=1
    )
    enough: float = setting(
        "tokens for each dimension from which on lambda and an absolute threshold are applied as they are; with fewer "
        "lambda shrinks in proportion, and a share of C's trace takes the threshold's place (0: never)",
        default=10.0,
        ge=0,
    )
    length: int = setting("tokens of a row of that text", default=128, ge=2)
    damping: float = setting("share of the mean eigenvalue added to the statistics", default=1e-4, ge=0)
    solve_on: Literal["device", "cpu"] = setting(
        "where the statistics and the equations are: with the model, or in main memory (slower; at width 14,336 each "
        "edited layer takes 1.6 GB)",
        default="device",
    )

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:  # noqa: ARG003
        """Learning rate by width; on a CPU small batches, since it gains nothing from larger ones, and pads more."""
        return {
            "learning_rate": _learning_rate(model),
            "search_batch": 4 if model.device.type == "cpu" else 32,
            "tokens": statistics_tokens(model.blocks[0].inner_width),
        }


class RomeSettings(LocateSettings):
    """Hyperparameters of ROME."""

    layer: int = setting("block that is edited", derived="by depth", ge=0)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:
        """The layer too, at the depth of the published ones in 7B models."""
        return {**super().derive(model, known), "layer": int(0.17 * len(model.blocks))}


class SeveralLayersSettings(LocateSettings):
    """Hyperparameters of editors that spread a change over layers."""

    layers: LayerList = setting("blocks that are edited, such as 4-8", derived="by depth")
    withdrawable: bool = setting(
        "keep each edit's keys and values, so that it can be withdrawn; `kgedit.edit` does unless told otherwise",
        default=False,
    )
    blue: bool = setting(
        "edit only the lowest and the highest of the layers, each by a value of its own, undivided (BLUE, 2502.03748)",
        default=False,
    )
    nas: bool = setting(
        "scale what the MLP should write to the mean norm of pilot edits of known facts (NAS, 2602.02543)",
        default=False,
    )
    pilots: int = setting("known facts that `nas` makes pilot edits of; the paper's code 1,000", default=100, ge=1)
    simie: float | None = setting(
        "lambda of SimIE: bring each call's change to where all interfere least; published 10 for MEMIT; null: off",
        default=None,
        gt=0,
    )

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:
        """The layers too: up to five that end at 0.27 of the depth, as 4-8 do in a model of 32."""
        top = int(0.27 * len(model.blocks))
        return {**super().derive(model, known), "layers": f"{max(0, top - 4)}-{top}"}


class PreserveSettings(SeveralLayersSettings):
    """Hyperparameters of editors that weigh edits against C."""

    preserve: float = setting("lambda: how many tokens' worth of C the edits weigh against", derived="by width", gt=0)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:
        """Lambda too, which grows with the width, since k^T C^-1 k does."""
        return {**super().derive(model, known), "preserve": 15_000.0 * model.blocks[0].inner_width / 11_008}


class MemitSettings(PreserveSettings):
    """Hyperparameters of MEMIT."""

    history: bool = setting("whether new edits keep what past ones brought about (not published)", default=False)


class EncoreSettings(PreserveSettings):
    """Hyperparameters of ENCORE; `preserve` is its lambda_p."""

    penalty: float = setting("lambda_n: weight of the change's own size", default=10.0, gt=0)
    patience: int = setting(
        "most steps after all tokens of the target are the likeliest in the prompts behind random prefixes",
        default=3,
        ge=0,
    )


class RlsEditSettings(PreserveSettings):
    """Hyperparameters of RLSEdit."""

    keep_weights: float = setting("lambda: its square is the weight of the change's own size", default=0.0, ge=0)
    keep_outputs: float = setting("mu: its square is the weight of `preserve` times C", default=1.0, gt=0)


class AlphaEditSettings(SeveralLayersSettings):
    """Hyperparameters of AlphaEdit."""

    penalty: float = setting("L2: weight of the change's own size", default=10.0, gt=0)
    threshold: float = setting("eigenvalues of C below it make the null space", default=RELATIVE_THRESHOLD, gt=0)
    relative: bool = setting("whether threshold is the share of C's trace that the null space may hold", default=True)


def statistics_tokens(width: int) -> int:
    """Tokens that statistics are read from where nobody says: enough for each of so many dimensions.

    (arXiv 2506.04226: 10 for each are enough for 95 % of what 44 million tokens give.)
    """
    return max(_LEAST_TOKENS, _TOKENS_PER_DIMENSION * width)


def _learning_rate(model: LanguageModel) -> float:
    """The published 0.5 from width 4,096 up; more below, so that a step of Adam, lr sqrt(width) long, stays as long.

    (SmolLM2-135M, ROME, 4 edits: 6.3 CPU seconds each at 0.5, 5.4 at 1.33; MEMIT, 10 edits: 5.4 and 3.9; same losses.)
    """
    width = int(model.module.config.get_text_config().hidden_size)
    return 0.5 * math.sqrt(max(1.0, 4096 / width))
