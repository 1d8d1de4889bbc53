"""Defaults and argument_specs of every role say the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

ROLES = sorted(path for path in Path(__file__).parents[3].joinpath("roles").iterdir() if path.is_dir())


def read(path: Path):
    return (yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None) or {}


def options_of(role: Path):
    """Options of all entry points: a role may have more than one."""
    options: dict = {}
    for entry in read(role / "meta/argument_specs.yml")["argument_specs"].values():
        options |= entry.get("options", {})
    return options


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_every_default_is_specified_and_every_other_option_is_required(role):
    defaults = read(role / "defaults/main.yml")
    options = options_of(role)
    assert {name: option.get("default") for name, option in options.items() if not option.get("required")} == defaults
    assert all("default" not in option for option in options.values() if option.get("required"))


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_every_default_is_valid_by_its_own_specification(role):
    """Suboptions that are required are so below an empty default too."""
    # Defaults that are templates are of their kind only once they are rendered.
    plain = {name: value for name, value in read(role / "defaults/main.yml").items() if "{{" not in str(value)}
    options = {name: option for name, option in options_of(role).items() if name in plain}
    assert ArgumentSpecValidator(options).validate(plain).error_messages == []


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_public_variables_carry_the_name_of_the_role_and_private_ones_two_underscores(role):
    options = options_of(role)
    assert [name for name in options if not name.startswith(f"{role.name}_")] == []
    assert [name for name in read(role / "vars/main.yml") if not name.startswith(f"__{role.name}_")] == []


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_role_names_no_inventory_group(role):
    named = [
        path.relative_to(role).as_posix()
        for path in [*role.rglob("*.yml"), *role.rglob("*.j2")]
        if "groups[" in path.read_text(encoding="utf-8") or "hostvars" in path.read_text(encoding="utf-8")
    ]
    assert named == []
