"""docker-compose.yml: what every process of the machine can see, and what the server may reach."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kgedit.graph.browser import browser_policy

FILE = Path(__file__).resolve().parents[2] / "docker-compose.yml"


@pytest.fixture(scope="module")
def service() -> dict:
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))["services"]["neo4j"]


def test_the_health_check_gives_the_password_by_environment_and_not_by_argument(service: dict) -> None:
    shell, command = service["healthcheck"]["test"]
    variables, _, arguments = command.partition("cypher-shell")
    assert shell == "CMD-SHELL"
    assert variables.split() == ["NEO4J_USERNAME=neo4j", 'NEO4J_PASSWORD="$${NEO4J_AUTH#neo4j/}"']
    assert "NEO4J" not in arguments
    assert "-p" not in arguments.split()
    # The image takes every variable NEO4J_* of the container for a setting, and refuses those that are none.
    assert not {"NEO4J_USERNAME", "NEO4J_PASSWORD"} & set(service["environment"])


def test_only_its_own_volumes_are_mounted(service: dict) -> None:
    assert service["volumes"] == ["data:/data", "logs:/logs"]


def test_neo4j_browser_may_contact_its_own_server_only(service: dict) -> None:
    policy = service["environment"]["NEO4J_dbms_security_http__static__content__security__policy__header"]
    assert policy == browser_policy("*")


def test_load_csv_reaches_no_file_and_no_address(service: dict) -> None:
    assert service["environment"]["NEO4J_dbms_security_allow__csv__import__from__file__urls"] == "false"
    assert service["environment"]["NEO4J_internal_dbms_cypher__ip__blocklist"] == "0.0.0.0/0,::/0"
