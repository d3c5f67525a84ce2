"""Finds the layers that locate-then-edit methods should edit, by causal tracing of facts that a model knows."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from kgedit.errors import ModelError, SpecError
from kgedit.progress import Steps
from kgedit.resources import use_home
from kgedit.verbs.home import folder_of
from kgedit.verbs.live_progress import step_line
from kgedit.verbs.options import OneOf, Verb, argument, flag, function_of, many, options, python_only
from kgedit.verbs.shared_options import DeviceOptions, InHome
from kgedit.verbs.stats import TINY, loaded_model, tiny_for

if TYPE_CHECKING:
    import pyarrow as pa

    from kgedit.editing.locate_then_edit.tracing import TracedFact
    from kgedit.llm.language_model import LanguageModel
    from kgedit.pages.marks import Figure
    from kgedit.records.cases import KnownFact
    from kgedit.timesteps.edit_files import Edits

EFFECTS = {"state": "string", "position": "string", "layer": "int64", "effect": "float64", "share": "float64"}
"""state: hidden (a block's output), mlp or attention. position: kind of token. layer: index of the block, the middle of
the window for mlp and attention. effect: average indirect effect, in probability. share: share of the total effect."""

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


@options
class TraceModel(DeviceOptions, InHome, Verb[Tracing]):
    """Find the layers at which MODEL recalls facts.

    Causal tracing (Meng et al. 2022, arXiv 2202.05262 section 2): noise on the subject's embeddings makes the model
    forget a fact's answer; then the outputs of single blocks, or of several adjacent MLPs or attentions, are restored
    at one token. Prints the effect of each layer at each kind of token, as a share of the decrease in the answer's
    probability due to the noise, and the layers that ROME and MEMIT would edit. Only facts that the model answers
    correctly are traced.
    """

    model: Any = argument(
        kw_only=False,
        metavar="MODEL",
        complete="models",
        help='See `build_statistics`; "tiny" is the model that runs on these edits use.',
    )
    edits: Any = flag(
        kw_only=False,
        metavar="FILE",
        help="Trace old answers and locality facts of this file of edits; in Python also an exported timestep.",
    )
    tokenizer: Any = python_only(default=None, help="See `edit`.")
    limit: int = flag(default=100, ge=1, help="At most N facts that the model answers right, drawn by the seed.")
    ask: Annotated[str, OneOf(("cloze", "question"))] = flag(
        default="cloze",
        group="Questions",
        help="Wording of the facts; those without a cloze are asked as questions.",
    )
    context: str = flag(
        default="question_only",
        group="Questions",
        metavar="NAME",
        help="Text around it, such as question_answer for models that do not answer a bare cloze.",
    )
    states: Annotated[Sequence[Annotated[str, OneOf(("hidden", "mlp", "attention"))]], BeforeValidator(many)] = flag(
        "--state", default=(), help="States that are restored; repeat. Default: all three."
    )
    samples: int = flag(default=10, ge=1, rare=True, help="Number of noise samples per fact.")
    noise: float = flag(default=3.0, gt=0, rare=True, help="Noise in standard deviations of the subjects' embeddings.")
    window: int | None = flag(
        default=None,
        ge=1,
        rare=True,
        metavar="N",
        help="MLPs or attentions restored together. Default: 10 of 48 blocks, as published.",
    )
    seed: int = flag(default=0, help="Seed of the facts and the noise.")
    progress: Steps | None = python_only(default=None, help="Progress callback for the facts.")

    def run(self) -> Tracing:
        """Trace the facts.

        Raises:
            SpecError: if `ask` or a state is invalid.
            ModelError: if the model knows none of the facts, has no such states, or the noise changes nothing.
        """
        import pyarrow as pa

        from kgedit.editing.locate_then_edit.tracing import STATE_KINDS, TracingPlan, trace
        from kgedit.timesteps.edit_files import open_edits

        if unknown := [state for state in self.states if state not in STATE_KINDS]:
            raise SpecError([f"states: {', '.join(STATE_KINDS)}, not {', '.join(unknown)}"])
        if self.ask not in ("cloze", "question"):
            raise SpecError([f"ask: cloze or question, not '{self.ask}'"])
        kinds = tuple(kind for kind in STATE_KINDS if not self.states or kind in self.states)
        own = TracingPlan(kinds, samples=self.samples, noise=self.noise, window=self.window, seed=self.seed)
        with use_home(folder_of(self.home)):
            opened = open_edits(Path(self.edits)) if isinstance(self.edits, str | Path) else self.edits
            loaded = self._loaded(opened)
            facts, asked = _known_facts(
                loaded, opened.known_facts(), ask=self.ask, context=self.context, limit=self.limit, seed=self.seed
            )
            if not facts:
                raise ModelError(
                    f"{loaded.name} answers none of the {asked} facts of {opened.name} correctly, so nothing can be "
                    f"traced. Give facts that it knows, or another wording: {self._other_wordings()}."
                )
            update = (self.progress or step_line)(f"trace {loaded.name}", len(facts), "facts")
            averages = trace(loaded, facts, own, advance=lambda done, _total: update(done, done))
        if averages.total <= 0:
            raise ModelError("The noise takes nothing from the answers' probability. Give a larger --noise.")
        rows = [
            {"state": state, "position": position, "layer": layer, "effect": effect, "share": effect / averages.total}
            for (state, position), effects in averages.indirect.items()
            for layer, effect in enumerate(effects)
        ]
        table = pa.Table.from_pylist(rows, schema=pa.schema(EFFECTS))
        return Tracing(table, len(facts), asked, averages.total, averages.rome_layer, averages.memit_layers)

    def _other_wordings(self) -> str:
        pairs = (("cloze", "question_only"), ("question", "question_only"), ("cloze", "question_answer"))
        others = [pair for pair in pairs if pair != (self.ask, self.context)]
        return ", or ".join(f"--ask {ask} --context {context}" for ask, context in others)

    def _loaded(self, edits: Edits) -> Any:
        if self.model == TINY:
            return tiny_for(edits, self.device, self.dtype)
        return loaded_model(self.model, self.tokenizer, self.device, self.dtype)


trace_model = function_of(TraceModel)


def tracing_figure(tracing: Tracing, *, model: str) -> Figure:
    """Draw a heat map per kind of state: layers top down, positions across, each effect as a share of the total."""
    from kgedit.pages.charts.bars import HeatCell, HeatRow, heat_map
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
