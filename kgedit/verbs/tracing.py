"""Finds the layers that locate-then-edit methods should edit, by causal tracing of facts that a model knows."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kgedit.errors import ModelError, SpecError
from kgedit.extras import names_extra
from kgedit.resources import use_home
from kgedit.verbs.home import Home, Steps, folder_of
from kgedit.verbs.live_progress import step_line
from kgedit.verbs.statistics import loaded_model

if TYPE_CHECKING:
    from kgedit.editing.locate_then_edit.tracing import TracedFact
    from kgedit.llm.language_model import LanguageModel
    from kgedit.pages.marks import Figure
    from kgedit.records.cases import KnownFact
    from kgedit.timesteps.edit_files import Edits

EFFECTS = pa.schema(
    [
        ("state", pa.string()),
        ("position", pa.string()),
        ("layer", pa.int64()),
        ("effect", pa.float64()),
        ("share", pa.float64()),
    ]
)
"""state: hidden (a block's output), mlp or attention. position: kind of token. layer: index of the block, the middle of
the window for mlp and attention. effect: average indirect effect, in probability. share: share of the total effect."""

TINY = "tiny"
"""Built-in model that is trained on a timestep's known facts."""

_AT_ONCE = 32
"""Number of facts evaluated together in the search for those that the model knows."""

_COLOURS = {"hidden": "free", "mlp": "good", "attention": "forced"}
"""Colour role in the palette by kind of state."""


@dataclass(frozen=True, slots=True)
class Tracing:
    """Result of causal tracing.

    Attributes:
        effects: Table with the columns of EFFECTS, by state, position and layer.
        facts: Number of facts that were traced.
        asked: Number of facts that the model was asked about, known or not.
        total_effect: Average decrease in the probability of the answer when the subject is corrupted.
        rome_layer: Layer of the MLP with the largest effect at the subject's last token; None if MLPs were not traced.
        memit_layers: That layer and the four below it.
    """

    effects: pa.Table
    facts: int
    asked: int
    total_effect: float
    rome_layer: int | None
    memit_layers: tuple[int, ...] | None

    def text(self) -> str:
        """Render a table per kind of state, with a row per layer, and the layers to edit."""
        lines = [
            f"{self.facts} facts traced, of {self.asked} asked. The noise takes {100 * self.total_effect:.1f} points "
            "from the answer's probability; shares of that in %:"
        ]
        for state, positions, layers in _grids(self.effects):
            lines += ["", "\t".join([f"{state}, layer", *positions])]
            lines += [
                "\t".join([str(layer), *(f"{100 * share:.1f}" for share in own)]) for layer, own in enumerate(layers)
            ]
        if self.rome_layer is not None and self.memit_layers is not None:
            lines += ["", f"rome: --set layer={self.rome_layer}", f"memit: --set layers={_range_of(self.memit_layers)}"]
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {
            "facts": self.facts,
            "asked": self.asked,
            "total_effect": self.total_effect,
            "rome_layer": self.rome_layer,
            "memit_layers": None if self.memit_layers is None else list(self.memit_layers),
            "effects": self.effects.to_pylist(),
        }


@names_extra
def trace_model(
    model: Any,
    edits: Edits | str | Path,
    *,
    tokenizer: Any = None,
    limit: int = 100,
    ask: str = "cloze",
    context: str = "question_only",
    states: Sequence[str] = (),
    samples: int = 10,
    noise: float = 3.0,
    window: int | None = None,
    seed: int = 0,
    device: str = "auto",
    dtype: str = "auto",
    home: Home | str | Path | None = None,
    progress: Steps | None = None,
) -> Tracing:
    """Find the layers and positions that mediate facts (ROME, arXiv 2202.05262 section 2).

    Args:
        model: See `build_statistics`; "tiny" is the model that runs on these edits use.
        edits: An exported timestep or a file of edits; its known facts are traced if the model answers them correctly.
        tokenizer: See `edit`.
        limit: Maximum number of facts to trace, drawn by the seed.
        ask: "cloze", a statement that ends just before the answer, as in the paper; or "question". Facts without a
            cloze are asked as questions.
        context: Text around the cloze or question, such as question_answer for models that do not answer a bare
            question.
        states: "hidden", "mlp" and "attention", or some of them; none means all.
        samples: Number of noise samples per fact.
        noise: Standard deviation of the noise, in standard deviations of the subjects' embeddings.
        window: Number of adjacent MLPs or attentions restored together; None means 10 of 48 blocks, as in the paper.
        seed: Seed of the facts and the noise.
        device: Device of a model given by name.
        dtype: Number format to load it in.
        home: See `build_statistics`.
        progress: Progress callback for the facts.

    Raises:
        SpecError: if `ask` or a state is invalid.
        ModelError: if the model knows none of the facts, or has no such states.
    """
    from kgedit.editing.locate_then_edit.tracing import STATE_KINDS, TracingPlan, trace
    from kgedit.timesteps.edit_files import open_edits

    if unknown := [state for state in states if state not in STATE_KINDS]:
        raise SpecError([f"states: {', '.join(STATE_KINDS)}, not {', '.join(unknown)}"])
    if ask not in ("cloze", "question"):
        raise SpecError([f"ask: cloze or question, not '{ask}'"])
    kinds = tuple(kind for kind in STATE_KINDS if not states or kind in states)
    own = TracingPlan(kinds, samples=samples, noise=noise, window=window, seed=seed)
    with use_home(folder_of(home)):
        opened = open_edits(Path(edits)) if isinstance(edits, str | Path) else edits
        loaded = _tiny(opened, device, dtype) if model == TINY else loaded_model(model, tokenizer, device, dtype)
        facts, asked = _known_facts(loaded, opened.known_facts(), ask=ask, context=context, limit=limit, seed=seed)
        if not facts:
            raise ModelError(
                f"{loaded.name} answers none of the {asked} facts of {opened.name} right, so that nothing can be "
                "traced. Give facts that it knows, or ask otherwise (--ask question, --context question_answer)."
            )
        update = (progress or step_line)(f"trace {loaded.name}", len(facts), "facts")
        averages = trace(loaded, facts, own, advance=lambda done, _total: update(done, done))
    rows = [
        {"state": state, "position": position, "layer": layer, "effect": effect, "share": effect / averages.total}
        for (state, position), effects in averages.indirect.items()
        for layer, effect in enumerate(effects)
    ]
    table = pa.Table.from_pylist(rows, schema=EFFECTS)
    return Tracing(table, len(facts), asked, averages.total, averages.rome_layer, averages.memit_layers)


def tracing_figure(tracing: Tracing, *, model: str) -> Figure:
    """Draw a heat map per kind of state: layers top down, positions across, each effect as a share of the total."""
    from kgedit.pages.charts.heat import HeatCell, HeatRow, heat_map
    from kgedit.pages.marks import Figure

    panels = []
    for state, positions, layers in _grids(tracing.effects):
        rows = [
            HeatRow(f"{layer}", "", tuple(HeatCell(min(1.0, max(0.0, share))) for share in shares))
            for layer, shares in reversed(list(enumerate(layers)))
        ]
        panels.append(
            heat_map(state, positions, rows, role=_COLOURS[state], names=40, note="layer; % of the total effect")
        )
    title = f"Causal tracing of {tracing.facts} facts in {model}"
    return Figure("tracing", title, tuple(panels), note="Average indirect effect as a share of the total effect.")


def _grids(effects: pa.Table) -> Iterator[tuple[str, list[str], list[list[float]]]]:
    """For each state, its positions and, per layer, the shares at them."""
    rows = effects.to_pylist()
    for state in dict.fromkeys(row["state"] for row in rows):
        own = [row for row in rows if row["state"] == state]
        positions = list(dict.fromkeys(row["position"] for row in own))
        shares = {(row["position"], row["layer"]): row["share"] for row in own}
        depth = 1 + max(row["layer"] for row in own)
        yield state, positions, [[shares[position, layer] for position in positions] for layer in range(depth)]


def _tiny(edits: Edits, device: str, dtype: str) -> LanguageModel:
    """Model that runs on the edits use, in the contexts that are always taught."""
    from kgedit.llm.devices import resolve_device, resolve_dtype
    from kgedit.llm.loading import load_model
    from kgedit.llm.tiny import choose_lesson

    chosen = resolve_device(device)
    lesson = choose_lesson(list(edits.cases()), edits.known_facts(), asked=())
    return load_model(TINY, device=chosen, dtype=resolve_dtype(dtype, chosen), lesson=lesson)


def _range_of(layers: Sequence[int]) -> str:
    return f"{layers[0]}-{layers[-1]}"


def _known_facts(
    model: LanguageModel, known: Sequence[KnownFact], *, ask: str, context: str, limit: int, seed: int
) -> tuple[list[TracedFact], int]:
    """Facts that the model answers correctly, at most `limit`, and the number of facts that it was asked."""
    from kgedit.editing.locate_then_edit.tracing import encode_fact, knows
    from kgedit.llm.contexts import read_context

    around = read_context(context).for_model(model.chat)
    order = list(dict.fromkeys(known))
    random.Random(seed).shuffle(order)
    found: list[TracedFact] = []
    asked = 0
    while asked < len(order) and len(found) < limit:
        part = order[asked : asked + _AT_ONCE]
        asked_so = [(fact.cloze if ask == "cloze" else "") or fact.question for fact in part]
        pairs = [(around.prompt(text), fact.answer) for text, fact in zip(asked_so, part, strict=True)]
        for fact, text, right in zip(part, asked_so, knows(model, pairs), strict=True):
            subject = fact.fact.subject_label
            encoded = encode_fact(model, text, subject, fact.answer, context=around) if right else None
            if encoded is not None:
                found.append(encoded)
        asked += len(part)
    return found[:limit], asked
