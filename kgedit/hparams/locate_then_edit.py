"""Settings of ROME and its variants, MEMIT and AlphaEdit."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.hparams.settings import CONTEXT_MEANING, Bounds, setting
from kgedit.llm.surgery.layer_lists import parse_layers

KNOWN_FACTS = "known_facts"
_PUBLISHED = "; None: as published for the model, else derived"


@dataclass(frozen=True, slots=True)
class LocateSettings:
    """Hyperparameters of the search for values and of the statistics."""

    steps: int | None = setting(None, f"most steps of the value search{_PUBLISHED}", bounds=Bounds(least=1))
    learning_rate: float | None = setting(None, f"of the value search's Adam{_PUBLISHED}", bounds=Bounds(above=0))
    weight_decay: float | None = setting(None, f"weight of |d| / |v0|^2{_PUBLISHED}", bounds=Bounds(least=0))
    clamp: float | None = setting(None, f"|d| stays below so many times |v0|{_PUBLISHED}", bounds=Bounds(above=0))
    drift_weight: float = setting(0.0625, 'weight of KL(after | before) at "SUBJECT is a"', bounds=Bounds(least=0))
    stop_loss: float = setting(5e-2, "an edit's search ends at this mean loss of the target", bounds=Bounds(least=0))
    prompts: int = setting(
        6, "prompts per edit: the bare one, and one behind each random prefix", bounds=Bounds(least=1)
    )
    prefix_tokens: int = setting(10, "tokens of a random prefix, which the model itself writes", bounds=Bounds(least=1))
    search_batch: int | None = setting(None, "edits searched for in one batch; None: by device", bounds=Bounds(least=1))
    context: str = setting("question_only", CONTEXT_MEANING)
    corpus: str = setting(KNOWN_FACTS, "text of the statistics: the timestep's known_facts, or a text file's path")
    tokens: int = setting(40_000, "most tokens of the statistics", bounds=Bounds(least=1))
    length: int = setting(128, "tokens of a row of that text", bounds=Bounds(least=2))
    damping: float = setting(1e-4, "share of the mean eigenvalue added to the statistics", bounds=Bounds(least=0))


@dataclass(frozen=True, slots=True)
class RomeSettings(LocateSettings):
    """Hyperparameters of ROME."""

    layer: int | None = setting(None, "block that is edited; None: as published, else by depth", bounds=Bounds(least=0))


@dataclass(frozen=True, slots=True)
class SpreadingSettings(LocateSettings):
    """Hyperparameters of editors that spread a change over layers."""

    layers: str | None = setting(
        None, "blocks that are edited, such as 4-8; None: as published, else by depth", read_by=parse_layers
    )


@dataclass(frozen=True, slots=True)
class MemitSettings(SpreadingSettings):
    """Hyperparameters of MEMIT."""

    preserve: float | None = setting(
        None,
        "lambda: how many tokens' worth of C the edits weigh against; None: as published, else by width",
        bounds=Bounds(above=0),
    )


@dataclass(frozen=True, slots=True)
class AlphaEditSettings(SpreadingSettings):
    """Hyperparameters of AlphaEdit."""

    penalty: float | None = setting(
        None, "L2: weight of the change's own size; None: as published, else 10", bounds=Bounds(above=0)
    )
    threshold: float | None = setting(
        None, "eigenvalues of C below it make the null space; None: as published, else 0.1", bounds=Bounds(above=0)
    )
    relative: bool | None = setting(
        None, "whether threshold is the share of C's trace that the null space may hold; None: as published, else it is"
    )
    anchor: bool = setting(False, "scale each z to the norm that the unedited model gives (arXiv 2602.02543)")
