"""Page of a timestep: changes between two snapshots, which became cases, and why the others did not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kgedit.graph.browser import saved_query
from kgedit.pages.change_cards import Card, CardData, read_cards, shown_dropped
from kgedit.pages.change_figures import ChangeFigure, change_figures, confidence_word
from kgedit.pages.report_page import Page
from kgedit.pages.report_views import in_days
from kgedit.pages.shell import packed, render
from kgedit.pages.verdict import Piece
from kgedit.timesteps.edit_files import Edits
from kgedit.timesteps.timestep import Timestep

BROWSER = "http://localhost:7474/browser/"
"""Default address of Neo4j Browser."""

_ITEM = "Q9999999999"  # placeholder for the item in the query that a card links to; no item has this id


@dataclass(frozen=True, slots=True)
class FigureSection:
    """A section of charts: anchor, name in the table of contents, heading, and description."""

    id: str
    name: str
    title: str
    lede: str


_SECTIONS = (
    FigureSection("funnel", "Funnel", "From changes to cases", "What the filters left, and what each took."),
    FigureSection("since", "Dates", "Since when the new value holds", "Start dates as the statements give them."),
    FigureSection("kinds", "Kinds and relations", "What kinds of changes", "What happened, and to what."),
    FigureSection(
        "specificity",
        "Specificity",
        "What an edit must not change",
        "Each case has at most one question about another subject with the same relation.",
    ),
    FigureSection(
        "known",
        "Views and counts",
        "How well known subjects and objects are",
        "The fewer the views of an article, or the counts of a name in a corpus, the more specific the question.",
    ),
    FigureSection("words", "Words", "What the edits are about", "Words of subjects and objects, and relations."),
)


def change_page(edits: Edits, *, command: str, browser: str = BROWSER) -> Page:
    """Render the page of a timestep or of a file of edits; the same edits give the same bytes.

    Args:
        command: Command that recreates the page.
        browser: Address of Neo4j Browser.
    """
    cards = read_cards(edits)
    manifest = edits.manifest if isinstance(edits, Timestep) else None
    figures = change_figures(cards, manifest)
    dropped = shown_dropped(edits)
    rows, counts = dropped if dropped else ([], Counter[str]())
    data = CardData().pack(cards, rows) | {"browser": browser, "query": _query(manifest), "item": _ITEM}
    present = {found.section for found in figures}
    sections = [section for section in _SECTIONS if section.id in present]
    title = f"What changed: {in_days(edits.name)}" if manifest else f"Edits of {edits.name}"
    html = render(
        "changes.html.j2",
        styles=["changes.css"],
        scripts=["changes.js"],
        title=title,
        brand="kgedit describe",
        heading="What changed in Wikidata" if manifest else "What the edits are",
        meta=_meta(edits, manifest),
        lead=_lead(cards, manifest),
        numbers=_numbers(cards, manifest),
        sections=[
            ("summary", "Summary"),
            *((one.id, one.name) for one in sections),
            ("cases", "Cases"),
            *([("dropped", "Why no case?")] if manifest else []),
            ("provenance", "Provenance"),
        ],
        figure_sections=[(section, _of(section.id, figures)) for section in sections],
        data=packed(data),
        has_dropped=dropped is not None,
        is_timestep=manifest is not None,
        dropped_counts=sorted(counts.items(), key=lambda one: (-one[1], one[0])),
        dropped_shown=len(rows),
        dropped_total=sum(counts.values()),
        facts=_provenance(edits, manifest),
        command=command,
    )
    return Page(html, tuple(found.figure for found in figures))


def _of(section: str, figures: Sequence[ChangeFigure]) -> list[ChangeFigure]:
    return [found for found in figures if found.section == section]


def _query(manifest: dict[str, Any] | None) -> str | None:
    """Query around an item, with a placeholder for its id; None if no graph contains the edits."""
    snapshots = (manifest or {}).get("snapshots") or []
    if len(snapshots) != 2:
        return None
    older, newer = (int(str(one["date"]).replace("-", "")) for one in snapshots)
    return saved_query("changes_around_item", item=_ITEM, **{"from": older, "to": newer})


def _meta(edits: Edits, manifest: dict[str, Any] | None) -> str:
    if manifest is None:
        return f"{edits.name} · a file of edits"
    projected = " · projected from a later dump" if isinstance(edits, Timestep) and edits.is_projected else ""
    return f"{in_days(edits.name)} · profile {manifest.get('profile')} · kgedit {manifest.get('kgedit')}{projected}"


def _lead(cards: Sequence[Card], manifest: dict[str, Any] | None) -> list[Piece]:
    tags = Counter(card.case.tag for card in cards)
    replaced, added = tags["update"], tags["new"]
    funnel = (manifest or {}).get("funnel", {})
    changed, drops = funnel.get("changed"), funnel.get("dropped")
    shown: list[Piece] = []
    if isinstance(changed, int):
        shown += [Piece(f"{changed:,} facts", "muted"), Piece(" changed between the two snapshots. ")]
    kept = funnel.get("kept")
    if isinstance(kept, int) and kept != len(cards):
        shown += [Piece(f"{kept:,} are updates; ")]  # profile wikifactdiff, which makes cases of some scenarios
    shown += [Piece(f"{len(cards):,} {'became cases' if manifest else 'edits'}", "free")]
    shown += [Piece(f": {replaced:,} replace a value and {added:,} add one where there was none." if cards else ".")]
    if isinstance(drops, dict) and sum(drops.values()):
        most = max(drops, key=lambda name: drops[name])
        total = sum(drops.values())
        shown += [
            Piece(" "),
            Piece(f"{total:,} were dropped", "bad"),
            Piece(f", {drops[most]:,} of them because: {most}."),
        ]
    return shown


def _numbers(cards: Sequence[Card], manifest: dict[str, Any] | None) -> list[tuple[str, str]]:
    shown = []
    for name, key in (("entities", "entities"), ("statements", "statements")):
        values = [one.get(key) for one in (manifest or {}).get("snapshots", [])]
        if len(values) == 2 and all(isinstance(value, int) for value in values):
            shown.append((name, f"{values[0]:,} → {values[1]:,}"))
    relations = len({card.case.fact.property for card in cards})
    sure = sum(confidence_word(card.confidence) == "high" for card in cards)
    shown.append(("relations", f"{relations:,}"))
    if any(card.confidence is not None for card in cards):
        shown.append(("kind known for sure", f"{sure:,} of {len(cards):,}"))
    shown.append(("locality probes", f"{sum(card.has_locality for card in cards):,} of {len(cards):,}"))
    shown.append(("two-hop questions", f"{sum(card.has_two_hops for card in cards):,}"))
    return shown


def _provenance(edits: Edits, manifest: dict[str, Any] | None) -> list[tuple[str, str]]:
    shown = []
    for name, snapshot in zip(
        ("Older snapshot", "Newer snapshot"), (manifest or {}).get("snapshots", []), strict=False
    ):
        source, loader = snapshot.get("source", {}), snapshot.get("loader", {})
        parts = (
            snapshot.get("date"),
            source.get("name"),
            f"sha256 {source.get('sha256')}",
            f"{loader.get('name')} {loader.get('version')}",
        )
        shown.append((name, " · ".join(map(str, parts))))
    if manifest:
        shown.append(("Settings", json.dumps(manifest.get("settings", {}), ensure_ascii=False, sort_keys=True)))
        shown.append(("Made by", f"kgedit {manifest.get('kgedit')}, profile {manifest.get('profile')}"))
    shown.append(("sha256", edits.sha256))
    return shown
