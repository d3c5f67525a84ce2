"""Settings of GRACE and WISE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from kgedit.hparams.settings import Settings, setting
from kgedit.llm.surgery.layers import choose_layer
from kgedit.records.runs import Setting

if TYPE_CHECKING:
    from kgedit.llm.language_model import LanguageModel


class GraceSettings(Settings):
    """Hyperparameters of GRACE."""

    layer: int = setting("block whose layer has the codebook", derived="by `depth`", ge=0)
    depth: float = setting("block as a fraction of all blocks: 35 of 48", default=0.73, ge=0, le=1, instead_of="layer")
    radius: float = setting("within which a new key counts", default=1.0, gt=0)
    steps: int = setting("most steps of Adam per batch", default=100, ge=1)
    learning_rate: float = setting("of Adam, on the values", default=1.0, gt=0)
    start: Literal["cold", "warm"] = setting(
        "where a new value starts: cold as published, at numbers drawn from 0 to 1; warm at what the layer gives",
        default="cold",
    )
    stop_loss: float = setting("a value is learned at this loss", default=1e-2, ge=0)
    batch: int = setting("edits whose values are learned together", default=16, ge=1)
    learn_end: bool = setting("whether the end of text is part of the target", default=False)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:
        """Layer by depth."""
        return {"layer": choose_layer(model, layer=known.get("layer"), depth=known["depth"])}


class WiseSettings(Settings):
    """Hyperparameters of WISE; what is None is measured on the unrelated prompts of the first edits."""

    layer: int = setting("block whose matrix has side copies", derived="by `depth`", ge=0)
    depth: float = setting("block as a fraction of all blocks: 26 of 32", default=0.84, ge=0, le=1, instead_of="layer")
    matrix: Literal["down", "up"] = setting("which of its MLP's matrices", default="down")
    prefixes: int = setting(
        "prompts of an edit behind text that the model itself wrote: half 5 tokens, half 10", default=10, ge=0, le=10
    )
    steps: int = setting("most steps of gradient descent per edit", default=70, ge=1)
    learning_rate: float | None = setting(
        "of gradient descent; null: as published, else by what the matrix reads", default=None, gt=0
    )
    decay: float = setting(
        "share of the copy's weights that each step takes away: published weight decay times learning rate",
        default=1e-5,
        ge=0,
    )
    clamp: float | None = setting("furthest that a weight of a copy may be from the matrix's", default=1.0, gt=0)
    stop_loss: float = setting("an edit is learned at this loss, margins included, once it settles", default=2e-2, ge=0)
    stop_change: float = setting("a loss has settled when a step changes it by at most this", default=1e-4, ge=0)
    distance: Literal["activated", "plain"] = setting(
        "how far a copy moves an output: both outputs through the model's activation first, as in the published code, "
        "or as they are, as in the paper",
        default="activated",
    )
    counted: Literal["prompt", "read"] = setting(
        "tokens that a distance is the mean of in training: the prompt's; or all that are read, target and padding "
        "too, as in the published code",
        default="prompt",
    )
    one_token_more: bool = setting(
        "divide an answer's loss by one token more than it has, as in the published code", default=False
    )
    subject_mask: bool = setting(
        "within an edit's own prompts, keep the subject's tokens apart from the others that are `counted`, in place of "
        "edits from unrelated prompts: the published code, where the unrelated prompt is the subject itself",
        default=False,
    )
    alpha: float = setting("the distance of unrelated prompts is to stay below this", default=5.0, ge=0)
    beta: float = setting("that of edits is to exceed this", default=20.0, ge=0)
    gamma: float = setting("least difference of the two", default=10.0, ge=0)
    unit: float | None = setting(
        "of alpha, beta, gamma; null: 1 where those are published, else by the layer's output", default=None, gt=0
    )
    margin_weight: float | None = setting(
        "of the margins' loss beside the answer's; null: 1 where margins are published, else by unit and learning rate",
        default=None,
        gt=0,
    )
    ratio: float = setting("threshold as a share of the least distance of an edit", default=0.88, gt=0)
    threshold: Literal["least", "mean"] = setting(
        "an edit's distance, for the threshold: the least of its prompts', over their tokens; or, as published, their "
        "mean, over the tokens that `counted` names",
        default="least",
    )
    long: int | None = setting("prompts of more tokens are routed by the one that is moved farthest", default=100, ge=1)
    share: float = setting("entries of the matrix that one copy may change", default=0.2, gt=0, le=1)
    shard: int = setting("edits in one copy", default=500, ge=1)
    merge_every: int = setting("edits whose copies are merged into one", default=1000, ge=1)
    merge: Literal["ties", "dare_ties", "dare_linear", "magnitude", "linear", "slerp"] = setting(
        "how copies are merged; slerp: two of them, halfway along the arc between them", default="ties"
    )
    retrieve: bool = setting(
        "keep one merged copy after the other and choose among them; false: one copy that all edits are merged into",
        default=True,
    )
    remeasured: int = setting(
        "edits on whose prompts a merge measures the threshold again, of more a sample; 0: the least of the merged "
        "copies' own, as published",
        default=0,
        ge=0,
    )
    replay: int = setting(
        "edits that a copy keeps for replay: each later edit is learned beside one of every merged copy, which it is "
        "to leave alone, and one since the last merge; 0: none, as published",
        default=0,
        ge=0,
    )
    density: float = setting("entries of a copy that a merge keeps", default=0.53, gt=0, le=1)
    batch: int = setting("edits learned together", default=1, ge=1)
    learn_end: bool = setting("whether the end of text is part of the target", default=False)

    @classmethod
    def derive(cls, model: LanguageModel, known: Mapping[str, Any]) -> dict[str, Setting]:
        """Layer by depth."""
        return {"layer": choose_layer(model, layer=known.get("layer"), depth=known["depth"])}
