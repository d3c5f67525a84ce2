"""What Neo4j Browser is told when it connects."""

from __future__ import annotations

import json

from kgedit.graph.browser import parse_style, style_command, style_file


def test_the_shipped_style_shows_labels_on_terms_and_property_names_on_claims() -> None:
    rules = parse_style(style_file().read_text(encoding="utf-8"))
    assert rules["node.Term"]["caption"] == "{label}"
    assert rules["relationship.CLAIM"]["caption"] == "{property_label}"
    assert all(rules.values())


def test_the_command_is_one_line_that_no_semicolon_cuts() -> None:
    command = style_command()
    assert "\n" not in command
    assert ";" not in command
    assert json.loads(command.removeprefix("style "))["node.Snapshot"]["caption"] == "{date}"


def test_braces_inside_quotes_do_not_end_a_rule() -> None:
    assert parse_style('node.A {\n  caption: "{a}: {b}";\n  color: #FFFFFF;\n}\nnode {\n  color: #000;\n}\n') == {
        "node.A": {"caption": "{a}: {b}", "color": "#FFFFFF"},
        "node": {"color": "#000"},
    }
