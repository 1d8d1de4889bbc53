"""A declared governor that the host's frequency scaling does not have is named."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.readiness import governor

from tests.fake_host import FakeHost
from tests.typed import typed

AVAILABLE, NOW = governor.FILES


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({AVAILABLE: "performance powersave\n", NOW: "powersave\n"}, []),
        ({NOW: "performance\n"}, []),
        (
            {AVAILABLE: "conservative powersave\n", NOW: "powersave\n"},
            ["cpu.governor: found conservative, powersave, expected performance"],
        ),
        ({NOW: "schedutil\n"}, ["cpu.governor: found schedutil, expected performance"]),
        ({}, ["cpu.governor: performance, and the host has no frequency scaling (a guest has none: declare null)"]),
    ],
)
def test_governor(expect: dict[str, Any], files: dict[str, str], said: list[str]) -> None:
    host = FakeHost({path: Output(text) for path, text in files.items()})
    expect["cpu"]["governor"] = "performance"
    assert governor.lacks(host, typed(expect)) == said
    expect["cpu"]["governor"] = None
    assert governor.lacks(host, typed(expect)) == []


def test_governor_that_cannot_be_read_is_not_there(expect: dict[str, Any]) -> None:
    host = FakeHost({NOW: Output(rc=None, error="Permission denied")})
    assert "no frequency scaling" in governor.lacks(host, typed(expect))[0]
