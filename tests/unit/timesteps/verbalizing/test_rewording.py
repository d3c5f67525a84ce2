"""Replies after the filters, and the resulting tables."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from world.small_timestep import NEW_MAYORS, write_timestep

from kgedit.errors import TimestepError
from kgedit.llm.remote.requests import ChatReply, FailedCall
from kgedit.timesteps.tables import TWO_HOPS
from kgedit.timesteps.timestep import Timestep
from kgedit.timesteps.verbalizing import MASK, Wanted, wanted_wordings
from kgedit.timesteps.verbalizing.prompting import read_prompt
from kgedit.timesteps.verbalizing.rewording import (
    NO_FORM,
    choose_wordings,
    count_wordings,
    reworded_tables,
    texts_of_model,
    wordings_table,
)
from kgedit.timesteps.verbalizing.verbalizers import LocalVerbalizer


@pytest.fixture
def timestep(tmp_path: Path) -> Timestep:
    """Two towns; the first has a second chain that is not asked."""
    made = write_timestep(tmp_path / "timestep", towns=range(2))
    rows = made.table("two_hops").to_pylist()
    rows.append({**rows[0], "object": "Q77", "object_label": "Oslo", "chosen": False, "question": "Not asked?"})
    pq.write_table(pa.Table.from_pylist(rows, schema=TWO_HOPS), made.folder / "two_hops.parquet")
    return made


def only(timestep: Timestep, axis: str) -> Wanted:
    return wanted_wordings(timestep, axes=(axis,))[0]


def reply(wanted: Wanted, *texts: str) -> ChatReply:
    text = read_prompt(wanted.prompt).reply(texts, wanted.asking.answer)
    return ChatReply(text=text, finished=True, prompt_tokens=1, new_tokens=1)


GOOD = "Where was the head of government of Arvika born?"


def test_a_two_hop_record_hides_the_middle_and_so_must_the_question(timestep: Timestep) -> None:
    wanted = only(timestep, "mhop")
    assert wanted.record["chain"] == ["Arvika", "head of government", MASK, "place of birth", "Eksjö"]
    assert NEW_MAYORS[0] not in str(wanted.record)
    texts = (GOOD, f"Where was {NEW_MAYORS[0]}, who governs Arvika, born?", "Was the governor of Arvika born in Eksjö?")
    (first, second) = choose_wordings([wanted], [reply(wanted, *texts)])[0]
    assert (first.question, first.source, first.reason) == (GOOD, "model", None)
    assert (second.source, second.reason) == ("template", "it names the entity in the middle")
    assert second.said == texts[1]


def test_of_two_equal_texts_one_is_taken(timestep: Timestep) -> None:
    wanted = only(timestep, "mhop")
    chosen = choose_wordings([wanted], [reply(wanted, GOOD, GOOD.upper(), f"{GOOD[:-1]} ?")])[0]
    assert [wording.question for wording in chosen] == [GOOD, wanted.templates[0]]
    assert chosen[1].reason == "it repeats another question of the case"


def test_a_reply_that_was_cut_off_and_one_that_failed_are_told_apart(timestep: Timestep) -> None:
    wanted = only(timestep, "update")
    cut = ChatReply(text='{"question": "Who', finished=False, prompt_tokens=1, new_tokens=1)
    assert choose_wordings([wanted], [cut])[0][0].reason == "the reply was cut off"
    assert choose_wordings([wanted], [FailedCall("timeout")])[0][0].reason == "no reply: timeout"


def test_no_rephrasing_repeats_the_question_of_the_edit(timestep: Timestep) -> None:
    update, other = only(timestep, "update"), only(timestep, "rephrase")
    same, kept = "Which person is mayor of Arvika?", other.templates[0]
    texts = (same, *["Who holds the post of mayor of Arvika?"] * (read_prompt("rephrase").texts - 1))
    asked, rephrased = choose_wordings([update, other], [reply(update, same), reply(other, *texts)])
    assert asked[0].question == same
    assert same not in [wording.question for wording in rephrased]
    (repeated,) = choose_wordings([update], [reply(update, kept)])[0]
    assert (repeated.question, repeated.source) == (update.templates[0], "template")


def test_only_the_chain_that_is_asked_is_worded(timestep: Timestep) -> None:
    wanted = wanted_wordings(timestep, axes=("mhop",))
    replies = [reply(one, GOOD.replace("Arvika", one.asking.subject), "", "") for one in wanted]
    chosen = choose_wordings(wanted, replies)
    rows = reworded_tables(timestep, wordings_table(wanted, chosen))["two_hops"].to_pylist()
    assert [row["question"] for row in rows if row["chosen"]] == [GOOD, GOOD.replace("Arvika", "Borgholm")]
    assert [row["question"] for row in rows if not row["chosen"]] == ["Not asked?"]


def test_a_template_that_fails_a_filter_too_stays_and_is_counted(timestep: Timestep) -> None:
    rows = timestep.table("locality").to_pylist()
    rows[0]["question"] = "At which water?"
    pq.write_table(
        pa.Table.from_pylist(rows, schema=timestep.table("locality").schema), timestep.folder / "locality.parquet"
    )
    wanted = wanted_wordings(timestep, axes=("locality",))
    table = wordings_table(wanted, choose_wordings(wanted, [FailedCall("500")] * len(wanted)))
    assert table["question"][0].as_py() == "At which water?"
    assert count_wordings(table)["locality"] == {
        "sources": {"template": 2},
        "reasons": {"no reply: 500": 2},
        "template_faults": {"the subject is missing": 1},
    }


def test_a_subject_that_needs_a_hint_is_named_with_it(timestep: Timestep) -> None:
    cases = timestep.table("cases")
    rows = cases.to_pylist()
    rows[0]["name"] = "the Arvika of Sweden"
    pq.write_table(pa.Table.from_pylist(rows, schema=cases.schema), timestep.folder / "cases.parquet")
    wanted = only(timestep, "update")
    assert wanted.record["subject"] == wanted.asking.subject == "Arvika of Sweden"


def test_replies_to_a_users_prompts_are_read_by_them(timestep: Timestep, tmp_path: Path) -> None:
    wanted, shipped = only(timestep, "rephrase"), read_prompt("rephrase")
    example = {"given": {"question": "Who?", "answer": "Ann"}, "questions": ["Which?"]}
    own = {"version": 1, "questions": 1, "max_tokens": 99, "instructions": "{form}", "examples": [example]}
    (tmp_path / "rephrase.yaml").write_text(json.dumps(own), encoding="utf-8")
    text = read_prompt("rephrase", tmp_path).reply(["Which person is mayor of Arvika?"], wanted.asking.answer)
    replies = [ChatReply(text=text, finished=True, prompt_tokens=1, new_tokens=1)]
    assert texts_of_model([wanted], replies, prompts=tmp_path)[0].passed == ("Which person is mayor of Arvika?",)
    assert texts_of_model([wanted], replies)[0].faults == (NO_FORM,) * shipped.texts


def test_an_axis_that_no_model_words_is_told(timestep: Timestep) -> None:
    with pytest.raises(TimestepError, match="No model words the axis 'alias'"):
        wanted_wordings(timestep, axes=("alias",))


def test_a_local_model_in_a_folder_is_recorded_without_its_path(tmp_path: Path) -> None:
    assert LocalVerbalizer(model=str(tmp_path)).name == tmp_path.name
    assert LocalVerbalizer(model="org/model").name == "org/model"
