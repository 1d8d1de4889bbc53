"""Module slurm_site_info, run as Ansible runs it, on a machine that is no controller."""

from __future__ import annotations

from typing import Any

import pytest

from tests.run_module import run_module

GIVEN: dict[str, Any] = {
    "nodes": {"gpu-01": "8"},
    "partitions": {"batch": {}},
    "release": "22.05",
    "state_directory": "/var/lib/slurm/slurmctld",
    "controllers": 1,
    "hooks": ["health", "prolog", "epilog"],
    "pmix": False,
    "uid": 990,
}


@pytest.mark.parametrize("check", [False, True])
def test_a_host_without_a_slurmctld_lacks_it(check: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Also where the machine has one: no controller is at this address.
    monkeypatch.setenv("SLURM_CONF", "/nonexistent/slurm.conf")
    result = run_module("slurm_site_info", check=check, **GIVEN)
    assert result["failed"] and result["nodes"] == {}
    (why,) = result["lacking"]
    assert why.startswith("slurmctld does not answer: ") and result["msg"] == why


@pytest.mark.parametrize("key", GIVEN)
def test_every_option_is_required(key: str) -> None:
    given = {name: value for name, value in GIVEN.items() if name != key}
    assert f"missing required arguments: {key}" in run_module("slurm_site_info", **given)["msg"]
