"""One object of each form of edit files, with all fields of the form; texts and people are made up."""

from __future__ import annotations

import csv
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
        "Relation_Specificity": [
            _asked("Arvika lies at the water", "Byälven", "the Byälven") | {"ids": [["Q100", "P206", "Q30"]]}
        ],
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


def _hop(question: str, cloze: str, answer: str, *aliases: str) -> Json:
    return {"question": question, "cloze": cloze, "answer": answer, "answer_alias": list(aliases)}


MAYOR_OF_ARVIKA: Json = COUNTERFACT["requested_rewrite"] | {"question": "Who is the mayor of Arvika?"}

MQUAKE: Json = {
    "case_id": 12,
    "requested_rewrite": [MAYOR_OF_ARVIKA],
    "questions": [
        "Which county is the birthplace of Arvika's mayor in?",
        "In which county was the mayor of Arvika born?",
        "The mayor of Arvika comes from which county?",
    ],
    "answer": "Skåne County",
    "answer_alias": ["Skåne"],
    "answer_extended": ["Malmöhus County"],
    "new_answer": "Dalarna County",
    "new_answer_alias": ["Dalarna"],
    "single_hops": [
        _hop("Who is the mayor of Arvika?", "The mayor of Arvika is", "Nils Ek", "N. Ek"),
        _hop("Where was Nils Ek born?", "Nils Ek was born in", "Lund"),
        _hop("Which county is Lund in?", "Lund is in", "Skåne County", "Skåne"),
    ],
    "new_single_hops": [
        _hop("Who is the mayor of Arvika?", "The mayor of Arvika is", "Olof Gren", "O. Gren"),
        _hop("Where was Olof Gren born?", "Olof Gren was born in", "Falun", "Falu stad"),
        _hop("Which county is Falun in?", "Falun is in", "Dalarna County", "Dalarna"),
    ],
    "orig": {
        "triples": [["Q100", "P6", "Q10"], ["Q10", "P19", "Q30"], ["Q30", "P131", "Q31"]],
        "triples_labeled": [
            ["Arvika", "head of government", "Nils Ek"],
            ["Nils Ek", "place of birth", "Lund"],
            ["Lund", "located in", "Skåne County"],
        ],
        "new_triples": [["Q100", "P6", "Q20"], ["Q20", "P19", "Q40"], ["Q40", "P131", "Q41"]],
        "new_triples_labeled": [
            ["Arvika", "head of government", "Olof Gren"],
            ["Olof Gren", "place of birth", "Falun"],
            ["Falun", "located in", "Dalarna County"],
        ],
        "edit_triples": [["Q100", "P6", "Q20"]],
    },
}
"""A chain of three hops with one edit, in MQuAKE's fields; `two_edits` in test_mquake.py has two edits."""

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
"""As published. kgedit's own files also have random neighbours and the popularity of neighbours."""

RANDOM_NEIGHBOUR: Json = {
    "subject": {"id": "Q300", "label": "Siljan", "description": "lake"},
    "relation": "P17",
    "objects": [
        {"object": {"id": "Q34", "label": "Sweden", "description": "country"}, "prompt": "Siljan lies in ____"}
    ],
    "dist": None,
    "popularity": 2.5,
}

TEXT = "Olof Gren became the mayor of Arvika in 2021. He was born in Falun, where he had led the library."

UNKE: Json = {
    "id": 4,
    "question": "What is known about the mayor of Arvika?",
    "answer": TEXT,
    "para_question": "Tell me about the mayor of Arvika.",
    "sub_question": ["Who is the mayor of Arvika?", "Where was the mayor of Arvika born?"],
    "sub_answer": ["Olof Gren", "Falun"],
    "mmlu_questions": ["Which of these is a lake?"],
    "mmlu_answer": ["A"],
    "mmlu_choices": [["Siljan", "Mora"]],
}

AKEW: Json = {
    "case_id": 3,
    "requested_rewrite": COUNTERFACT["requested_rewrite"]
    | {
        "prompt_full": "Who is the mayor of Arvika?",
        "fact_new_uns": TEXT,
        "unsfact_triplets_GPT": [
            {"prompt": "{} was born in", "subject": "Olof Gren", "target": "Falun"},
            {"prompt": "{} became mayor in", "subject": "Olof Gren", "target": "2021"},
        ],
    },
    "paraphrase_prompts": ["A parade began. Arvika is led by"],
    "neighborhood_prompts": ["The mayor of Mora is"],
    "attribute_prompts": ["The mayor of Kalix is"],
    "generation_prompts": ["Arvika's mayor lives in"],
    "loc": "which water does Mora lie at",
    "loc_ans": "Siljan",
}

HALLUEDIT: Json = {
    "topic": "towns",
    "subject": "Arvika",
    "relation": "mayor",
    "object": "Olof Gren",
    "question": "Who is the mayor of Arvika?",
    "paraphrased_question": "Who leads Arvika?",
    "locality_question": "Which water does Arvika lie at?",
    "yes_question": "Is Olof Gren the mayor of Arvika?",
    "no_question": "Is Nils Ek the mayor of Arvika?",
    "multiple_choice_with_letters": "A. Olof Gren B. Nils Ek",
    "multiple_choice_labels": "A",
    "reversed_relation_question": "Of which town is Olof Gren the mayor?",
    "question_2hop": "Where was the mayor of Arvika born?",
    "answer_2hop": "Falun",
    "question_3hop": "Which county is the birthplace of Arvika's mayor in?",
    "answer_3hop": "Dalarna County",
}

ROWS: dict[str, Json] = {
    "akew": AKEW,
    "counterfact": COUNTERFACT,
    "easyedit": EASYEDIT,
    "halluedit": HALLUEDIT,
    "mquake": MQUAKE,
    "unke": UNKE,
    "wikibigedit": WIKIBIGEDIT,
    "wikifactdiff": WIKIFACTDIFF,
    "zsre": ZSRE,
}
"""Form -> example object."""


def write_json(path: Path, *rows: Any) -> Path:
    """Write a JSON list."""
    path.write_text(json.dumps(list(rows), ensure_ascii=False), encoding="utf-8")
    return path


def write_csv(path: Path, *rows: Any) -> Path:
    """Write CSV, with a first column of row numbers as pandas writes it."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["", *rows[0]])
        writer.writeheader()
        writer.writerows({"": number} | row for number, row in enumerate(rows))
    return path


def write_lines(path: Path, *rows: Any) -> Path:
    """Write JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_parquet(path: Path, *rows: Any) -> Path:
    """Write Parquet, as converted by Hugging Face."""
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path
