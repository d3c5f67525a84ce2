"""Exports of kgedit pass its audit, in every form and as a timestep."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from world.audited import snapshots
from world.two_days import two_snapshots
from world.updates import article, number, said

from kgedit.cli import main
from kgedit.exporters.easyedit import export as easyedit
from kgedit.exporters.wikibigedit import export as wikibigedit
from kgedit.timesteps.audit import audit_edits
from kgedit.timesteps.edit_files import open_edits
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.export import WikiBigEditSettings, export_timestep
from kgedit.timesteps.wikifactdiff.export import WikiFactDiffSettings
from kgedit.timesteps.wikifactdiff.export import export_timestep as export_wikifactdiff


@pytest.mark.slow
def test_every_case_of_an_export_is_valid(tmp_path: Path) -> None:
    old, new = snapshots(tmp_path)
    timestep = export_timestep(
        StoreEngine(), old, new, tmp_path / "timestep", settings=WikiBigEditSettings(), writers=(easyedit, wikibigedit)
    )
    cases = len(list(timestep.cases()))
    assert cases > 5
    for path in (timestep.folder, timestep.folder / "easyedit.json", timestep.folder / "wikibigedit.json"):
        audit = audit_edits(open_edits(path), old, new, spill=tmp_path / "spill")
        rows = audit.rows.to_pylist()
        assert [row["reasons"] for row in rows] == [[]] * cases, path
        judged = [row["locality"] for row in rows]
        assert set(judged) - {None} == {"valid"}
        assert judged.count(None) == timestep.manifest["without_locality"]


@pytest.mark.slow
def test_an_added_relation_whose_older_value_preprocessing_dropped_is_no_case(tmp_path: Path) -> None:
    values = [article(name, label=f"Place {name}") for name in ("Q11", "Q12")]
    # Q90 has no article: the profile does not see that Arvika lay in it.
    unseen = {**article("Q90", label="Old county"), "sitelinks": {}}
    others = [article("P131"), *values, unseen, article("Q3", said("P131", "Q12", start="1990"), label="Falun")]
    before = [
        article("Q1", said("P131", "Q90", start="1990"), label="Arvika"),
        article("Q2", said("P31", "Q12"), label="Borgholm"),
    ]
    after = [
        article("Q1", said("P131", "Q11", start="2022-05-01"), label="Arvika"),
        article("Q2", said("P31", "Q12"), said("P131", "Q12", start="2022-05-01"), label="Borgholm"),
    ]
    old, new = two_snapshots(tmp_path, [*others, *before], [*others, *after])
    timestep = export_wikifactdiff(old, new, tmp_path / "timestep", settings=WikiFactDiffSettings())
    assert timestep.manifest["scenarios"]["AddRelation"] == 2
    assert [case.case_id for case in timestep.cases()] == ["Q2:P131:Q12"]
    assert timestep.manifest["added_relations_with_an_older_value"] == 1
    audit = audit_edits(open_edits(timestep.folder), old, new, spill=tmp_path / "spill")
    assert audit.rows["verdict"].to_pylist() == ["valid"]


@pytest.mark.slow
def test_a_quantity_may_have_a_trailing_zero(tmp_path: Path) -> None:
    held = said("P1082", number("12.50"), start="2010")
    ended = said("P1082", number("12.50"), start="2010", end="2022-05-01")
    begun = said("P1082", number("13.0"), start="2022-05-01")
    old, new = two_snapshots(
        tmp_path, *([article("P1082"), article("Q1", *stated, label="Arvika")] for stated in ([held], [ended, begun]))
    )
    timestep = export_wikifactdiff(old, new, tmp_path / "timestep", settings=WikiFactDiffSettings())
    assert [case.answer for case in timestep.cases()] == ["13"]
    rows = audit_edits(open_edits(timestep.folder), old, new, spill=tmp_path / "spill").rows.to_pylist()
    assert [(row["verdict"], row["kind"]) for row in rows] == [("valid", "update")]


@pytest.mark.slow
def test_an_export_without_cases_is_audited_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = [article("Q1", label="Arvika")]
    old, new = two_snapshots(tmp_path, world, world)
    folder = export_wikifactdiff(old, new, tmp_path / "timestep", settings=WikiFactDiffSettings()).folder
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "it's a home"))
    ran = CliRunner().invoke(main, ["audit", str(folder), "--from", old.name, "--to", new.name])
    assert ran.exit_code == 0, ran.output
    assert "0 of 0" in ran.stdout
