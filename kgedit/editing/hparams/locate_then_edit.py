"""Settings of ROME, MEMIT and their variants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from kgedit.editing.hparams.settings import Settings, readable_by, setting
from kgedit.llm.surgery.layers import choose_layer, parse_layers
from kgedit.records.runs import Setting

if TYPE_CHECKING:
    from kgedit.llm.language_model import LanguageModel

KNOWN_FACTS = "known_facts"
PROSE = "prose"
SAMPLE = "sample"
"""General text that is shipped with kgedit."""

RELATIVE_THRESHOLD = 0.1
"""Maximum share of C's trace in a null space."""

_TOKENS_PER_DIMENSION, _LEAST_TOKENS = 26, 40_000
"""As many per dimension as measured on SmolLM2-135M: 40,000 tokens for 1,536 dimensions (deviations.yaml)."""

LayerList = Annotated[str, readable_by(parse_layers)]


class LocateSettings(Settings):
    """Hyperparameters of the search for values and of the statistics."""

    steps: int = setting("maximum steps of the value search", default=25, ge=1)
    learning_rate: float = setting("learning rate of Adam in the value search", derived="by width", gt=0)
    weight_decay: float = setting("weight of |d| / |v0|^2", default=1e-3, ge=0)
    clamp: float = setting("maximum of |d| as a multiple of |v0|", default=4.0, gt=0)
    drift_weight: float = setting('weight of KL(after | before) at "SUBJECT is a"', default=0.0625, ge=0)
    drift_at: Literal["end", "subject"] = setting(
        "position of that divergence: end of the prompt, as in the paper, or the subject's last token, as in the code "
        "of ROME and MEMIT",
        default="end",
    )
    stop_loss: float = setting("loss at which the search of an edit ends", default=5e-2, ge=0)
    stop: Literal["loss", "target"] = setting(
        "which loss that is: the whole loss, as published, or only the target's mean loss", default="loss"
    )
    prompts: int = setting("prompts per edit: the bare one, and one after each random prefix", default=6, ge=1)
    prefix_tokens: int = setting("tokens of a random prefix, which the model generates", default=10, ge=1)
    prefix_likeliest: int | None = setting(
        "number of likeliest tokens from which random prefixes are sampled, 5 in the published code; null: all",
        default=None,
        ge=1,
    )
    search_batch: int = setting("edits per batch of the search", derived="by device", ge=1)
    corpus: str = setting(
        "text of the statistics: the timestep's known_facts without the edited ones; sample (all facts of the bundled "
        "sample) or prose (shipped with kgedit), which do not depend on the edits; the path of a text, .jsonl or "
        ".parquet file; or several of these, separated by commas",
        default=KNOWN_FACTS,
    )
    tokens: int = setting("maximum tokens of the statistics", derived="26 per input dimension, at least 40,000", ge=1)
    enough: float = setting(
        "tokens per dimension needed to apply lambda and an absolute threshold unchanged; with fewer, lambda shrinks "
        "in proportion and a share of C's trace replaces the threshold (0: never)",
        default=10.0,
        ge=0,
    )
    length: int = setting("tokens per row of that text", default=128, ge=2)
    damping: float = setting("share of the mean eigenvalue added to the statistics", default=1e-4, ge=0)
    solve_on: Literal["device", "cpu"] = setting(
        "device of the statistics and equations: that of the model, or main memory (slower; at width 14,336 each "
        "edited layer takes 1.6 GB)",
        default="device",
    )

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:  # noqa: ARG003 - one signature for all
        """Derive the learning rate from the width; batches are small on a CPU, where larger ones only add padding."""
        return {
            "learning_rate": _learning_rate(model),
            "search_batch": 4 if model.device.type == "cpu" else 32,
            "tokens": statistics_tokens(model.blocks[0].inner_width),
        }


class RomeSettings(LocateSettings):
    """Hyperparameters of ROME."""

    layer: int = setting("edited block", derived="by depth", ge=0)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:
        """Also derives the layer, at the depth of the published ones in 7B models."""
        return {**super().derive(model, known), "layer": int(0.17 * len(model.blocks))}


class SeveralLayersSettings(LocateSettings):
    """Hyperparameters of editors that spread a change over layers."""

    layers: LayerList = setting("edited blocks, such as 4-8", derived="by depth")
    withdrawable: bool = setting(
        "store each edit's keys and values, so that it can be withdrawn; `kgedit.edit` enables it by default",
        default=False,
    )
    blue: bool = setting(
        "edit only the lowest and the highest layer, each with a separate, undivided value (BLUE, 2502.03748)",
        default=False,
    )
    nas: bool = setting(
        "scale the target output of the MLP to the mean norm of pilot edits of known facts (NAS, 2602.02543)",
        default=False,
    )
    pilots: int = setting("known facts for the pilot edits of `nas`; 1,000 in the paper's code", default=100, ge=1)
    simie: float | None = setting(
        "lambda of SimIE, which changes each call's update to interfere least; 10 as published for MEMIT; null: off",
        default=None,
        gt=0,
    )
    sphere: float | None = setting(
        "share of a change removed along the main directions of the matrix (SPHERE, 2510.01172); 0.5 as published for "
        "AlphaEdit, 0.8 for MEMIT; null: off",
        default=None,
        gt=0,
        le=1,
    )
    sphere_share: float = setting(
        "share of the rows' second moment that these directions hold", default=0.5, gt=0, le=1
    )

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:
        """Also derives the layers: up to five that end at 0.27 of the depth, as 4-8 do in a model of 32."""
        top = int(0.27 * len(model.blocks))
        return {**super().derive(model, known), "layers": f"{max(0, top - 4)}-{top}"}


class PreserveSettings(SeveralLayersSettings):
    """Hyperparameters of editors that weigh edits against C."""

    preserve: float = setting("lambda: weight of C against the edits, in tokens", derived="by width", gt=0)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:
        """Also derives lambda, which grows with the width because k^T C^-1 k does."""
        return {**super().derive(model, known), "preserve": 15_000.0 * model.blocks[0].inner_width / 11_008}


class MemitSettings(PreserveSettings):
    """Hyperparameters of MEMIT."""

    history: bool = setting("whether new edits preserve the effect of past ones (not published)", default=False)


class EncoreSettings(PreserveSettings):
    """Hyperparameters of ENCORE; `preserve` is its lambda_p."""

    penalty: float = setting("lambda_n: weight of the size of the change", default=10.0, gt=0)
    patience: int = setting(
        "maximum steps after all target tokens are the likeliest in the prompts with random prefixes",
        default=3,
        ge=0,
    )


class RlsEditSettings(PreserveSettings):
    """Hyperparameters of RLSEdit."""

    keep_weights: float = setting("lambda: its square is the weight of the size of the change", default=0.0, ge=0)
    keep_outputs: float = setting("mu: its square is the weight of `preserve` times C", default=1.0, gt=0)


class LyapLockSettings(PreserveSettings):
    """Hyperparameters of LyapLock."""

    alpha: float = setting(
        "bound of the drift on text, as a multiple of that after the first call; beyond it the penalty grows",
        default=60.0,
        gt=0,
    )


class NullSpaceSettings(SeveralLayersSettings):
    """Hyperparameters of editors that restrict changes to a null space."""

    threshold: float = setting("eigenvalues of C below it span the null space", default=RELATIVE_THRESHOLD, gt=0)
    relative: bool = setting("whether threshold is the maximum share of C's trace in the null space", default=True)


class AlphaEditSettings(NullSpaceSettings):
    """Hyperparameters of AlphaEdit."""

    penalty: float = setting("L2: weight of the size of the change", default=10.0, gt=0)
    history: bool = setting("whether new edits preserve the effect of past ones, as published", default=True)


class AnyEditSettings(NullSpaceSettings):
    """Hyperparameters of AnyEdit."""

    penalty: float | None = setting(
        "L2: weight of the size of the change; null: a tenth of the mean square of text's keys in the null space",
        default=None,
        gt=0,
    )
    chunk: int = setting("tokens of an answer that are edited by one value", derived="by width", ge=1)
    learn_end: bool = setting("whether the end of text is part of the answer", default=True)
    prompts: int = setting("prompts per edit: the bare one, and one after each random prefix", default=1, ge=1)
    drift_weight: float = setting('weight of KL(after | before) at "SUBJECT is a"', default=0.0, ge=0)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:
        """Also derives the chunk, since a vector of a narrower model determines fewer tokens."""
        return {**super().derive(model, known), "chunk": chunk_tokens(_width(model))}


class UnkeSettings(Settings):
    """Hyperparameters of UnKE."""

    layer: int = setting("block whose weights are trained", derived="by `depth`", ge=0)
    depth: float = setting("block as a fraction of all blocks: 7 of 32", default=0.22, ge=0, le=1, instead_of="layer")
    steps: int = setting("maximum steps of the value search", default=25, ge=1)
    learning_rate: float = setting("learning rate of Adam in the value search", derived="by width", gt=0)
    weight_decay: float = setting("weight of |d| / |v0|^2", default=1e-3, ge=0)
    clamp: float = setting("maximum of |d| as a multiple of |v0|", default=4.0, gt=0)
    stop_loss: float = setting("loss at which the search of an edit ends", default=5e-2, ge=0)
    train_steps: int = setting("steps of Adam on the block's weights per call", default=50, ge=1)
    train_rate: float = setting("learning rate of Adam on the block's weights", default=2e-4, gt=0)
    unrelated: int = setting("unrelated texts at which the block's outputs should not change", default=20, ge=0)
    learn_end: bool = setting("whether the end of text is part of the answer", default=True)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:
        """Derive the layer from the depth and the learning rate from the width."""
        return {
            "layer": choose_layer(model, layer=known.get("layer"), depth=known["depth"]),
            "learning_rate": _learning_rate(model),
        }


def statistics_tokens(width: int) -> int:
    """Default number of tokens for statistics of `width` dimensions.

    (arXiv 2506.04226: 10 per dimension are enough for 95 % of the effect of 44 million tokens.)
    """
    return max(_LEAST_TOKENS, _TOKENS_PER_DIMENSION * width)


def chunk_tokens(width: int) -> int:
    """Default number of tokens that one value of AnyEdit determines: the published 40 from width 4,096 on, at least 8.

    (SmolLM2-135M, 4 paragraphs of 36 to 47 tokens: if they are fed, 92 % of the tokens are right with 8, 70 % with 40.)
    """
    return max(8, min(40, round(40 * width / 4096)))


def _width(model: LanguageModel) -> int:
    return int(model.module.config.get_text_config().hidden_size)


def _learning_rate(model: LanguageModel) -> float:
    """The published 0.5 from width 4,096 up, higher below, so that a step of Adam keeps its length lr sqrt(width).

    (SmolLM2-135M, ROME, 4 edits: 6.3 CPU seconds each at 0.5, 5.4 at 1.33; MEMIT, 10 edits: 5.4 and 3.9; same losses.)
    """
    return 0.5 * math.sqrt(max(1.0, 4096 / _width(model)))
