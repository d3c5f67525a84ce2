"""Parsing speed of each format's loader on one core, for the same entities, compared with the JSON loader.

Formats need different numbers of bytes per entity, so entities per second compare formats; MB per second give the time
for a dump. The entities are those of 2015, written in each format by the tests' own writers.
Run: PYTHONPATH=tests python benchmarks/formats.py [--every 2] [--turtle-every 20]
"""

from __future__ import annotations

import argparse
import bz2
import json
import time
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from world.rdf import RdfWriter, as_turtle

from kgedit.loaders import LOADERS
from kgedit.store.schemas import LoaderOptions

REAL = Path(__file__).resolve().parents[2] / "shared/data/dump_1000_20151109/1000-entities-20151109.json.bz2"
Json = dict[str, Any]


def entities(every: int) -> list[Json]:
    """Every n-th of the real entities."""
    lines = [line.strip().rstrip(b",") for line in bz2.decompress(REAL.read_bytes()).splitlines()]
    return [json.loads(line) for line in lines if len(line) > 2][::every]


def pages(chosen: list[Json]) -> bytes:
    """The entities as pages of an XML dump."""
    made = (
        f"<page><title>{one['id']}</title><revision><id>1</id><model>wikibase-{one['type']}</model>"
        f"<text>{escape(json.dumps(one))}</text></revision></page>\n"
        for one in chosen
    )
    return f"<mediawiki>\n{''.join(made)}</mediawiki>\n".encode()


def edges(chosen: list[Json]) -> bytes:
    """Item-valued statements and English labels as KGTK's edges, which contain less than the other formats."""
    rows = ["node1\tlabel\tnode2\tid"]
    for one in chosen:
        label = dict(one.get("labels") or {}).get("en", {}).get("value", "x").replace("'", "\\'")
        rows.append(f"{one['id']}\tlabel\t'{label}'@en\t{one['id']}-label-en")
        for name, group in dict(one.get("claims") or {}).items():
            rows += [f"{one['id']}\t{name}\tQ{place + 1}\t{one['id']}-{name}-{place}" for place in range(len(group))]
    return ("\n".join(rows) + "\n").encode()


def measure(name: str, title: str, text: bytes, count: int) -> None:
    """Print one line with the best of three, in CPU time."""
    loader = LOADERS[name](LoaderOptions())
    best = min(_seconds(loader, text) for _ in range(3))
    size = len(text) / 1e6
    print(f"  {title:<28}{size:8.1f} MB{size / best:9.1f} MB/s{count / best:10.0f} entities/s", flush=True)


def _seconds(loader: Any, text: bytes) -> float:
    begun = time.process_time()
    loader.parse(text)
    return time.process_time() - begun


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--every", type=int, default=2)
    arguments.add_argument("--turtle-every", type=int, default=20)
    given = arguments.parse_args()
    chosen, few = entities(given.every), entities(given.turtle_every)
    print(f"{len(chosen)} entities of 2015 ({len(few)} for Turtle):")
    lines = b"\n".join(json.dumps(one, ensure_ascii=False).encode() for one in chosen)
    measure("wikidata_json", "JSON", lines, len(chosen))
    measure("wikidata_rdf", "full RDF, N-Triples", RdfWriter().dump(chosen), len(chosen))
    measure("wikidata_rdf", "full RDF, Turtle", as_turtle(RdfWriter().dump(few)), len(few))
    measure("wikidata_truthy", "truthy RDF, N-Triples", RdfWriter(truthy=True).dump(chosen), len(chosen))
    measure("wikidata_xml", "XML of pages", pages(chosen), len(chosen))
    measure("kgtk", "KGTK (labels, items)", edges(chosen), len(chosen))


if __name__ == "__main__":
    main()
