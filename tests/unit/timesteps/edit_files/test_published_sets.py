"""ZsRE, CounterFact, WikiBigEdit and WikiFactDiff become cases as their own code reads them."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from world.edit_files import (
    COUNTERFACT,
    RANDOM_NEIGHBOUR,
    UNKE,
    WIKIBIGEDIT,
    WIKIFACTDIFF,
    ZSRE,
    Json,
    write_json,
    write_lines,
    write_parquet,
)

from kgedit.errors import TimestepError
from kgedit.records.cases import Case
from kgedit.timesteps.edit_files import EditFile
from kgedit.timesteps.edit_files.wikifactdiff import ObjectPool


def _cases(folder: Path, *rows: Json) -> list[Case]:
    return list(EditFile.open(write_json(folder / "edits.json", *rows)).cases())


def _asked(case: Case) -> list[tuple[str, str, str]]:
    return [(probe.axis, probe.question, probe.answers[0]) for probe in case.probes]


def test_zsre_teaches_alt_in_place_of_answers_and_asks_natural_questions_without_t5s_prefix(tmp_path: Path) -> None:
    (case,) = _cases(tmp_path, ZSRE)
    assert (case.question, case.answer, case.old_answers) == ("Who is the mayor of Arvika?", "Olof Gren", ("Nils Ek",))
    assert _asked(case) == [
        ("update", "Who is the mayor of Arvika?", "Olof Gren"),
        ("rephrase", "Who leads Arvika?", "Olof Gren"),
        ("mhop", "Where was Arvika's mayor born?", "Falun"),
        ("locality", "which water does Mora lie at?", "Siljan"),
    ]


def test_counterfact_puts_the_subject_into_the_prompt_and_keeps_the_ids(tmp_path: Path) -> None:
    (case,) = _cases(tmp_path, COUNTERFACT)
    assert (case.question, case.cloze) == ("The mayor of Arvika is", "The mayor of Arvika is")
    assert (case.fact.property, case.fact.object, case.old_objects) == ("P6", "Q20", ("Q10",))
    assert _asked(case)[1:] == [
        ("rephrase", "A parade began. Arvika is led by", "Olof Gren"),
        ("rephrase", "Arvika's mayor is", "Olof Gren"),
        ("locality", "The mayor of Mora is", "Nils Ek"),
        ("locality", "The mayor of Hjo is", "Nils Ek"),
    ]


def test_counterfact_puts_the_subject_into_paraphrases_and_leaves_out_neighbours_with_braces(tmp_path: Path) -> None:
    row = COUNTERFACT | {"paraphrase_prompts": ["{} is led by"], "neighborhood_prompts": ["The mayor of {} is"]}
    edits = EditFile.open(write_json(tmp_path / "edits.json", row))
    (case,) = edits.cases()
    assert _asked(case)[1:] == [("rephrase", "Arvika is led by", "Olof Gren")]
    assert edits.left_out == {"locality questions with {} and no subject to replace it": 1}


LEME: Json = {
    "dependancies": {
        "subject_entity": {
            "entity": "Arvika",
            "entity_id": "Q1",
            "properties": ["mayor", "country"],
            "coupled_prompt": "Write an essay about Arvika\nInclude the following information:\n- mayor\n- country",
            "ground_truth": {"mayor": ["Nils Ek"], "country": ["Sweden"]},
        },
        "coupled_entities": [{"entity": "Nils Ek", "coupled_prompt": "Write an essay about Nils Ek"}],
        "coupled_properties_count": 2,
    }
}


@pytest.mark.parametrize("row", [COUNTERFACT, ZSRE])
def test_leme_asks_for_an_essay_about_the_subject_in_which_the_target_should_occur(tmp_path: Path, row: Json) -> None:
    (plain,), (case,) = _cases(tmp_path, row), _cases(tmp_path, row | LEME)
    (essay,) = [probe for probe in case.probes if probe not in plain.probes]
    assert (essay.axis, essay.answers) == ("consequence", ("Olof Gren",))
    assert essay.question.startswith("Write an essay about Arvika\n")
    unused = EditFile.open(write_json(tmp_path / "leme.json", row | LEME)).unused_fields
    assert not [field for field in unused if "not known to the form" in field]
    assert not [field for field in unused if "subject_entity.coupled_prompt" in field]


def test_wikibigedits_absent_probes_are_null_nan_or_missing(tmp_path: Path) -> None:
    bare = WIKIBIGEDIT | {"loc": None, "mhop": float("nan"), "mhop_ans": float("nan"), "tag": "new"}
    del bare["personas"]
    first, second = _cases(tmp_path, WIKIBIGEDIT, bare)

    assert [axis for axis, _, _ in _asked(first)] == ["update", "rephrase", "personas", "mhop", "locality"]
    assert (first.tag, first.old_answers, second.tag) == ("update", (), "new")
    assert [axis for axis, _, _ in _asked(second)] == ["update", "rephrase"]
    assert first.probes[3].facts[0] == first.fact
    assert first.probes[3].second_case_id is None


def test_unkes_questions_and_answers_are_paired_by_place(tmp_path: Path) -> None:
    questions = ["Where was she born?", "Where did she die?", "What did she do?", "When?"]
    row = UNKE | {"sub_question": questions, "sub_answer": ["Paris", "Paris", " ", "1902"]}
    edits = EditFile.open(write_json(tmp_path / "edits.json", row | {"loc": ["a?", "b?", "c?"], "loc_ans": ["1", "1"]}))
    (case,) = edits.cases()
    assert _asked(case)[2:] == [
        ("consequence", questions[0], "Paris"),
        ("consequence", questions[1], "Paris"),
        ("consequence", questions[3], "1902"),
        ("locality", "a?", "1"),
        ("locality", "b?", "1"),
    ]
    assert edits.left_out == {
        "questions about a text without an answer": 1,
        "locality questions without an answer": 1,
    }
    (alone,) = _cases(tmp_path, UNKE | {"loc": "a?", "loc_ans": "1"})
    assert _asked(alone)[-1] == ("locality", "a?", "1")


def test_a_line_separator_in_a_text_ends_no_row(tmp_path: Path) -> None:
    lines = [json.dumps(ZSRE | {"alt": f"Olof\u2028{name}"}, ensure_ascii=False) for name in ("Gren", "Berg")]
    path = tmp_path / "edits.jsonl"
    path.write_text("\r\n".join(lines) + "\r\n", encoding="utf-8", newline="")
    assert [case.answer for case in EditFile.open(path).cases()] == ["Olof\u2028Gren", "Olof\u2028Berg"]


@pytest.mark.parametrize(
    "header", ["Unnamed: 0,subject,prompt,target_new,rephrase", ',"subject","prompt","target_new",r']
)
def test_a_csv_file_may_have_quoted_names_and_empty_cells(header: str, tmp_path: Path) -> None:
    path = tmp_path / "edits.csv"
    path.write_text(
        f"{header}\n0,,Who leads Arvika?,Olof Gren,\n1,Mora,Who leads Mora?,Siv Nyman,,,\n", encoding="utf-8"
    )
    cases = list(EditFile.open(path).cases())
    assert [(case.question, case.answer, case.fact.subject_label) for case in cases] == [
        ("Who leads Arvika?", "Olof Gren", ""),
        ("Who leads Mora?", "Siv Nyman", "Mora"),
    ]


def test_a_cell_longer_than_csv_allows_is_an_error_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "edits.csv"
    path.write_text(f"prompt,target_new\nWho?,{'a' * 200_000}\n", encoding="utf-8")
    with pytest.raises(TimestepError, match=r"the row of line 2 cannot be read \(field larger than"):
        EditFile.open(path)


def test_wikifactdiffs_clozes_lose_their_blank_and_neighbours_are_locality(tmp_path: Path) -> None:
    ((case, details),) = EditFile.open(write_lines(tmp_path / "edits.jsonl", WIKIFACTDIFF)).details()
    assert case.case_id == "Q100:P6:Q20"
    assert (case.old_objects, case.old_answers) == (("Q10",), ("Nils Ek",))
    assert _asked(case) == [
        ("update", "The mayor of Arvika is", "Olof Gren"),
        ("rephrase", "Arvika is led by", "Olof Gren"),
        ("rephrase", "Arvika's mayor is", "Olof Gren"),
        ("locality", "The mayor of Mora is", "Siv Nyman"),
    ]
    assert case.probes[3].facts[0].object == "Q19"
    assert (details.scenario, details.popularity, details.other_objects) == ("ReplaceObject", 4.5, ())


def test_random_neighbours_are_an_axis_of_their_own_and_as_many_are_read_as_wanted(tmp_path: Path) -> None:
    others = [RANDOM_NEIGHBOUR, copy.deepcopy(RANDOM_NEIGHBOUR)]
    others[1]["objects"][0]["prompt"] = "Siljan is a lake of ____"
    edits = EditFile.open(write_lines(tmp_path / "edits.jsonl", WIKIFACTDIFF | {"random_neighborhood": others}))
    assert not [field for field in edits.unused_fields if "random" in field and "description" not in field]
    (case,) = edits.cases()
    near, drawn, _ = case.probes[3:]
    assert (near.axis, near.similarity, near.popularity) == ("locality", 0.75, None)
    assert (drawn.axis, drawn.similarity, drawn.popularity) == ("random_locality", None, 2.5)
    assert (drawn.facts[0].subject, drawn.facts[0].property, drawn.answers) == ("Q300", "P17", ("Sweden",))
    (fewer,) = edits.cases(neighbours=1)
    assert fewer.probes == case.probes[:5]


def _with_objects(*decisions: str, **changes: object) -> Json:
    things = [{"id": f"Q{30 + n}", "label": f"Thing {n}", "decision": name} for n, name in enumerate(decisions)]
    return copy.deepcopy(WIKIFACTDIFF) | {"objects": things} | changes


@pytest.mark.parametrize(
    ("row", "scenario", "others"),
    [
        (_with_objects("new", "obsolete"), "ReplaceObject", [()]),
        (_with_objects("learn", "forget"), "ReplaceObject", [()]),
        (_with_objects("new", "static"), "AddObject", [("Q31",)]),
        (_with_objects("new", "new"), "AddRelation", [("Q31",), ("Q30",)]),
        (_with_objects("new", subject_is_ph_new=True), "AddEntity", [()]),
        (_with_objects("new", "obsolete", "static"), "Other", [("Q32",)]),
    ],
)
def test_every_new_object_of_a_scenario_is_a_case(
    row: Json, scenario: str, others: list[tuple[str, ...]], tmp_path: Path
) -> None:
    read = EditFile.open(write_json(tmp_path / "edits.json", row)).read
    assert [details.scenario for _, details in read] == [scenario] * len(others)
    assert [details.other_objects for _, details in read] == others


def test_an_archived_fact_is_a_case_where_a_run_says_what_to_teach(tmp_path: Path) -> None:
    edits = EditFile.open(write_json(tmp_path / "edits.json", WIKIFACTDIFF, _with_objects("obsolete")))
    assert len(edits.read) == len(list(edits.cases())) == 1
    assert edits.left_out == {"archived facts, which a run takes with --archive-as only": 1}
    _, archived = edits.cases(archive_as="nobody")
    assert (archived.scenario, archived.answer, archived.old_answers) == ("Archive", "nobody", ("Thing 0",))
    assert {probe.answers for probe in archived.probes if probe.axis != "locality"} == {("nobody",)}
    assert [probe.answers for probe in archived.probes if probe.axis == "locality"] == [("Siv Nyman",)]
    assert set(archived.alternatives) == {"Nils Ek", "Siv Nyman", "Olof Gren"}


def test_a_row_that_neither_adds_nor_archives_is_counted(tmp_path: Path) -> None:
    edits = EditFile.open(write_json(tmp_path / "edits.json", WIKIFACTDIFF, _with_objects("obsolete", "static")))
    assert edits.left_out == {"rows without a new object: there is nothing to teach": 1}


def test_an_added_object_has_static_answers_and_alternatives(tmp_path: Path) -> None:
    added = _with_objects("new", "static", "static")
    edits = EditFile.open(write_json(tmp_path / "edits.json", WIKIFACTDIFF, added))
    replaced, case = edits.cases()
    assert (replaced.scenario, replaced.alternatives) == ("ReplaceObject", ()), (
        "its old answer is what it is compared with"
    )
    assert (case.scenario, case.static_answers) == ("AddObject", ("Thing 1", "Thing 2"))
    assert set(case.alternatives) == {"Olof Gren", "Nils Ek", "Siv Nyman"}


def test_alternatives_are_about_as_frequent_and_never_right() -> None:
    said = [("P6", f"Q{n}", "common") for n in range(9)] + [("P6", f"Q{n}", "frequent") for n in range(8)]
    said += [("P6", f"Q{n}", f"rare {n}") for n in range(20)] + [("P6", "Q1", "twice"), ("P6", "Q2", "twice")]
    said += [("P9", "Q1", "elsewhere"), ("P6", "Q0", "common")]
    pool = ObjectPool(said)
    assert pool.alternatives("P6", "common", own=(), most=2) == ("frequent", "twice")
    rare = pool.alternatives("P6", "rare 3", own=("rare 4",), most=5)
    assert len(set(rare)) == 5
    assert all(name.startswith("rare") for name in rare)
    assert not {"rare 3", "rare 4"} & set(rare)
    assert rare == ObjectPool(reversed(said)).alternatives("P6", "rare 3", own=("rare 4",), most=5)
    assert pool.alternatives("P6", "unheard of", own=(), most=1)[0].startswith("rare")
    assert pool.alternatives("P7", "common", own=()) == ()


def test_a_literal_has_a_label_and_no_id(tmp_path: Path) -> None:
    row = _with_objects() | {"objects": [{"label": "1200", "description": "Quantity", "decision": "new"}]}
    (case,) = _cases(tmp_path, row)
    assert (case.answer, case.fact.object[0]) == ("1200", "o")


def test_prompts_that_rows_lack_come_from_triple_verbs_beside_them(tmp_path: Path) -> None:
    bare = copy.deepcopy(WIKIFACTDIFF)
    del bare["update_prompt"], bare["generalization_prompts"]
    file = write_json(tmp_path / "triples.json", bare, WIKIFACTDIFF)
    with pytest.raises(TimestepError, match=r"Put WikiFactDiff's triple_verbs\.jsonl"):
        EditFile.open(file)

    def verbs(subject: str, *wordings: str) -> Json:
        triple = {"subject": {"label": subject}, "relation": {"id": "P6"}, "object": {"label": "x"}}
        return {"triple": triple, "verbalizations": [{"fill_in_the_blank": text} for text in wordings], "error": None}

    write_lines(
        tmp_path / "triple_verbs.jsonl",
        verbs("Mora", "mora is headed by ____", "The head of Mora is ____"),
        verbs("Hjo", "The head of Hjo is ____", "Nobody knows ____"),
    )
    own, given = EditFile.open(file).cases()
    assert [(probe.axis, probe.question) for probe in own.probes[:2]] == [
        ("update", "The head of Arvika is"),
        ("rephrase", "Arvika is headed by"),
    ]
    assert len(own.probes) == 3
    assert given.question == "The mayor of Arvika is"


def _verbs(subject: str, relation: str, *wordings: str) -> Json:
    triple = {"subject": {"label": subject}, "relation": {"id": relation}, "object": {"label": "x"}}
    return {"triple": triple, "verbalizations": [{"fill_in_the_blank": text} for text in wordings], "error": None}


def _without_prompts() -> Json:
    bare = copy.deepcopy(WIKIFACTDIFF) | {"random_neighborhood": [copy.deepcopy(RANDOM_NEIGHBOUR)]}
    del bare["update_prompt"], bare["generalization_prompts"]
    del bare["neighborhood"][0]["objects"][0]["prompt"], bare["random_neighborhood"][0]["objects"][0]["prompt"]
    return bare


@pytest.mark.parametrize(
    "place",
    [
        "20210104-20230227/triple_verbs.parquet",
        "20210104-20230227/triple_verbs/train-00000.jsonl",
        "triple_verbs/train-00000-of-00002.parquet",
        "triple_verbs_V2/train-00000.parquet",
        "verbalizations.jsonl",
        "chatgpt_verbalization_result/verbalizations.jsonl",
    ],
)
def test_wordings_are_found_where_the_hub_and_the_builder_have_them(place: str, tmp_path: Path) -> None:
    data = tmp_path / "20210104-20230227"
    data.mkdir()
    file = write_parquet(data / "train-00000.parquet", _without_prompts())
    verbs = tmp_path / place
    verbs.parent.mkdir(exist_ok=True)
    write = write_parquet if verbs.suffix == ".parquet" else write_lines
    write(verbs, _verbs("Mora", "P6", "The head of Mora is ____"), _verbs("Vänern", "P17", "Vänern lies in ____"))
    (case,) = EditFile.open(file).cases()
    assert [(probe.axis, probe.question) for probe in case.probes] == [
        ("update", "The head of Arvika is"),
        ("locality", "The head of Mora is"),
        ("random_locality", "Siljan lies in"),
    ]


def test_all_parts_of_a_folder_of_wordings_count(tmp_path: Path) -> None:
    file = write_json(tmp_path / "rows.json", _without_prompts())
    (tmp_path / "triple_verbs").mkdir()
    for number, wording in enumerate(("Mora is led by ____", "The head of Mora is ____", "The head of Mora is ____")):
        write_parquet(tmp_path / "triple_verbs" / f"part-{number}.parquet", _verbs("Mora", "P6", wording))
    (case,) = EditFile.open(file).cases()
    assert [probe.question for probe in case.probes[:2]] == ["The head of Arvika is", "Arvika is led by"]
    assert case == next(EditFile.open(file).cases()), "a neighbour's wording is drawn the same each time"


def test_edits_are_called_after_their_file_or_the_timestep_that_it_lies_in(tmp_path: Path) -> None:
    assert EditFile.open(write_json(tmp_path / "zsre.json", ZSRE)).name == "zsre"
    (tmp_path / "timestep.json").write_text("{}", encoding="utf-8")
    assert EditFile.open(write_json(tmp_path / "zsre.json", ZSRE)).name == tmp_path.name


def test_two_cases_never_share_an_id(tmp_path: Path) -> None:
    first, second = _cases(tmp_path, WIKIFACTDIFF, WIKIFACTDIFF)
    assert [first.case_id, second.case_id] == ["Q100:P6:Q20", "Q100:P6:Q20#2"]


def test_malformed_objects_of_wikifactdiff_are_counted(tmp_path: Path) -> None:
    broken = copy.deepcopy(WIKIFACTDIFF)
    broken["objects"] += [None, "Q5"]
    broken["neighborhood"] += [None]
    broken["neighborhood"][0]["objects"] += [7]
    edits = EditFile.open(write_json(tmp_path / "edits.json", WIKIFACTDIFF, broken, broken | {"objects": [None]}))
    assert edits.left_out == {
        "entries of neighborhood that are no JSON object": 4,
        "entries of objects that are no JSON object": 3,
        "rows without a new object: there is nothing to teach": 1,
    }
    first, second = edits.cases()
    assert (first.answer, second.answer) == ("Olof Gren", "Olof Gren")
    assert _asked(first) == _asked(second)
