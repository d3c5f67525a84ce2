"""YAML is read by the parser in C, and reported on as by the one in Python."""

from __future__ import annotations

import pytest
import yaml

from kgedit.yaml_files import SafeLoader, load_yaml

TEXTS = [
    "",
    "a: 1\nb: [x, ~, 1.5, 2024-03-01, 2024-03, yes, '07', 0o7, 1_000, .inf]",
    'text: |\n  kept\n  lines\nfolded: >-\n  one\n  line\nquoted: "\\u00e9\\t"',
    "base: &base {k: 1}\nother:\n  <<: *base\n  m: 2",
    "\ufeffname: Zürich 東京 🏔",
    "learning_rate: 5e-4",
]


@pytest.mark.parametrize("text", TEXTS)
def test_values_are_those_of_the_python_parser(text: str) -> None:
    assert load_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize("text", ["a: [1", "a: b: c", "a: \x07", "a: !python/name:os.system", "- a\nb: 1", "a: *gone"])
def test_messages_are_those_of_the_python_parser(text: str) -> None:
    with pytest.raises(yaml.YAMLError) as expected:
        yaml.safe_load(text)
    with pytest.raises(yaml.YAMLError) as found:
        load_yaml(text)
    assert str(found.value) == str(expected.value)


def test_the_parser_in_c_is_used_where_it_is_there() -> None:
    assert SafeLoader is (yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader)
