"""An object of each form of edit files, with every field that the form knows; texts and people are made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Json = dict[str, Any]


def _asked(prompt: str, *answers: str) -> Json:
    return {"prompt": prompt, "ground_truth": [list(answers)]}


EASYEDIT: Json = {
    "case_id": 7,
    "source": "towns",
    "prompt": "The mayor of Arvika is",
    "target_new": "Olof Gren",
    "subject": "Arvika",
    "ground_truth": "Nils Ek",
    "rephrase_prompt": "Arvika is led by",
    "cond": "Nils Ek >> Olof Gren || The mayor of Arvika is",
    "locality": {
        "Relation_Specificity": [_asked("Arvika lies at the water", "Byälven", "the Byälven")],
        "Forgetfulness": [_asked("The former mayor of Arvika is", "Nils Ek")],
    },
    "portability": {
        "Reasoning": [_asked("The mayor of Arvika was born in", "Falun")],
        "Subject_Aliasing": [_asked("The mayor of Arvika stad is", "Olof Gren")],
        "Logical_Generalization": [_asked("Olof Gren is the mayor of", "Arvika")],
        "Personas": [_asked("Ahoy, who leads Arvika?", "Olof Gren")],
        "Humming": [_asked("The mayor of Arvika hums", "softly")],
    },
}

ZSRE: Json = {
    "subject": "Arvika",
    "src": "Who is the mayor of Arvika?",
    "pred": "nobody",
    "rephrase": "Who leads Arvika?",
    "alt": "Olof Gren",
    "answers": ["Nils Ek"],
    "loc": "nq question: which water does Mora lie at",
    "loc_ans": "Siljan",
    "cond": "Nils Ek >> Olof Gren || Who is the mayor of Arvika?",
    "portability": {
        "Recalled Relation": "(Olof Gren, born in, Falun)",
        "New Question": "Where was Arvika's mayor born?",
        "New Answer": "Falun",
    },
}

COUNTERFACT: Json = {
    "case_id": 3,
    "pararel_idx": 70,
    "requested_rewrite": {
        "prompt": "The mayor of {} is",
        "relation_id": "P6",
        "target_new": {"str": "Olof Gren", "id": "Q20"},
        "target_true": {"str": "Nils Ek", "id": "Q10"},
        "subject": "Arvika",
    },
    "paraphrase_prompts": ["A parade began. Arvika is led by", "Arvika's mayor is"],
    "neighborhood_prompts": ["The mayor of Mora is", "The mayor of Hjo is"],
    "attribute_prompts": ["The mayor of Kalix is"],
    "generation_prompts": ["Arvika's mayor lives in"],
}

WIKIBIGEDIT: Json = {
    "tag": "update",
    "subject": "Arvika",
    "update": "Who is the mayor of Arvika?",
    "rephrase": "Who leads Arvika?",
    "personas": "Ahoy, who be the mayor of Arvika?",
    "ans": "Olof Gren",
    "loc": "Who is the mayor of Mora?",
    "loc_ans": "Siv Nyman",
    "mhop": "Where was the mayor of Arvika born?",
    "mhop_ans": "Falun",
}

WIKIFACTDIFF: Json = {
    "subject": {"id": "Q100", "label": "Arvika", "description": "town"},
    "relation": {"id": "P6", "label": "head of government", "description": "leader"},
    "update_prompt": "The mayor of Arvika is ____",
    "generalization_prompts": ["Arvika is led by ____.", "Arvika's mayor is ____"],
    "subject_is_ph_new": False,
    "relation_is_temp_func": True,
    "is_replace": True,
    "subject_popularity": 4.5,
    "objects": [
        {"id": "Q20", "label": "Olof Gren", "description": "person", "decision": "new"},
        {"id": "Q10", "label": "Nils Ek", "description": "person", "decision": "obsolete"},
    ],
    "neighborhood": [
        {
            "subject": {"id": "Q109", "label": "Mora", "description": "town"},
            "objects": [
                {
                    "object": {"id": "Q19", "label": "Siv Nyman", "description": "person"},
                    "prompt": "The mayor of Mora is ____",
                }
            ],
            "dist": 0.25,
        }
    ],
}
"""As published. kgedit's own files have random neighbours too, and how popular neighbours are."""

RANDOM_NEIGHBOUR: Json = {
    "subject": {"id": "Q300", "label": "Siljan", "description": "lake"},
    "relation": "P17",
    "objects": [
        {"object": {"id": "Q34", "label": "Sweden", "description": "country"}, "prompt": "Siljan lies in ____"}
    ],
    "dist": None,
    "popularity": 2.5,
}

ROWS: dict[str, Json] = {
    "counterfact": COUNTERFACT,
    "easyedit": EASYEDIT,
    "wikibigedit": WIKIBIGEDIT,
    "wikifactdiff": WIKIFACTDIFF,
    "zsre": ZSRE,
}
"""Form -> an object of it."""


def write_json(path: Path, *rows: Any) -> Path:
    """A JSON list."""
    path.write_text(json.dumps(list(rows), ensure_ascii=False), encoding="utf-8")
    return path


def write_lines(path: Path, *rows: Any) -> Path:
    """JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_parquet(path: Path, *rows: Any) -> Path:
    """Parquet, as Hugging Face converts a data set."""
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path
