"""Each argument vector of the table, given to the real program of each system, and what Muster makes of the answers."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import PROBES
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable

from tests.contracts import systems, table
from tests.contracts.table import Tool, forms_of, refuse_unknown
from tests.contracts.trial import faults
from tests.typed import typed
from tests.unit.module_utils.conftest import EXPECT, healthy_host

TOOLS = [tool for tool in table.read().values() if not tool.unverified]
# These need no hardware, or have the lab's GPUs: what they print on a bare system is read, not only survived.
READ = (
    *("disk_free", "hostname", "lscpu", "lspci", "nccl", "nvidia_smi", "nvlink", "nvlsm", "nvml"),
    *("perftest", "uname"),
)


@pytest.fixture(scope="module")
def told(system: systems.System) -> dict[str, list[str]]:
    return faults(system, [tool for tool in TOOLS if tool.packages[system.suite]])


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_real_program_knows_every_word_that_muster_gives_it(
    system: systems.System, told: dict[str, list[str]], tool: Tool
) -> None:
    if not tool.packages[system.suite]:
        pytest.skip(f"{system.name} has no {tool.name}")
    assert told[tool.name] == []


@pytest.mark.parametrize(
    ("name", "pattern", "found"),
    [
        ("lspci", "lspci -D --json", "refused: lspci -D --json"),
        ("lspci", "lspci -D -vvq", ""),
        ("sync", "env true --json", "never looked at --json"),
        ("sync", "no_such_program", "not run: no_such_program"),
    ],
)
def test_word_that_a_program_does_not_know_is_found(
    system: systems.System, name: str, pattern: str, found: str
) -> None:
    tool = table.read()[name]
    told = faults(system, [replace(tool, forms=tuple(forms_of(pattern, tool.forms[0].values)))])[name]
    assert [each for each in told if each.startswith(found)] if found else told == []


class BareHost:
    """A host with the files of a healthy node and the programs of a system, which find no hardware."""

    def __init__(self, system: systems.System) -> None:
        self.system, self.files = system, healthy_host()
        self.runs: list[Sequence[str]] = []

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        refuse_unknown(argv)
        self.runs.append(argv)
        (answer,) = self.system.answers([(list(argv), "root")])
        return Output(answer.stdout, answer.stderr, answer.rc, error=answer.stderr if answer.rc is None else "")

    def read(self, path: str) -> Output:
        return self.files.outputs.get(path, Output(rc=None, error=f"{path}: not there"))

    def paths(self, *patterns: str) -> list[str]:
        return self.files.paths(*patterns)


@pytest.mark.parametrize("name", sorted(PROBES))
def test_probe_reads_what_real_programs_print_without_hardware(system: systems.System, name: str) -> None:
    host, probe = BareHost(system), PROBES[name]
    output = probe.collect(host, typed(copy.deepcopy(EXPECT)))
    if not host.runs:
        pytest.skip("runs no program")
    if name in READ:
        assert probe.parse(output) is not None
    else:
        try:
            probe.parse(output)
        except Unreadable as exc:
            assert str(exc)
