"""Which of NVIDIA's tools a host has, and what the real ones of Debian's mstflint say to what they are asked here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import TOOL_PATH, LocalHost, Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.nic.nic_tools import CONFIG, LINK, tool_of
from ansible_collections.muster.cluster.plugins.module_utils.probes import cables, mlxlink, nic_config

from tests.fake_host import FakeHost
from tests.typed import typed

ROOT = Path(__file__).parents[3]
REAL = ("mstlink", "mstconfig")
# Debian 12's mstflint 4.21, and what its programs need.
PACKAGES = (
    *("mstflint", "libboost-filesystem1.74.0", "libexpat1", "libgomp1", "libjsoncpp25"),
    *("libmuparser2v5", "libsqlite3-0", "libssl3"),
)
# A PCI domain that no machine has.
NOWHERE = "fffe:1a:00.0"


def missing(tool: str) -> Output:
    return Output(rc=None, error=f"{tool}: not found in /usr/bin")


@pytest.mark.parametrize("tools", [LINK, CONFIG])
def test_tool_is_the_first_that_answers_whatever_it_answers(tools):
    for version in (Output("4.31.0\n"), Output(rc=-11)):
        assert tool_of(FakeHost(answer=version), tools) == tools[0]
        host = FakeHost({tools[0]: missing(tools[0]), tools[1]: version})
        assert tool_of(host, tools) == tools[1]
    assert host.commands == [f"{tool} --version" for tool in tools]


def test_missing_tools_are_both_named_with_their_package():
    host = FakeHost({"mstconfig": Output(rc=None, error="mstconfig: no answer"), "mlxconfig": missing("mlxconfig")})
    told = "mstconfig: no answer; mlxconfig: not found in /usr/bin: package mstflint has one, NVIDIA's MFT the other"
    with pytest.raises(Unreadable, match=told):
        tool_of(host, CONFIG)


def test_settings_that_no_tool_reads_are_no_report(expect):
    expect["nic"]["firmware_settings"] = [{"key": "NUM_OF_VFS", "wanted": "0"}]
    output = nic_config.collect(FakeHost({tool: missing(tool) for tool in CONFIG}), typed(expect))
    assert output.rc is None and "mstconfig" in output.error and "mlxconfig" in output.error


class Asked(LocalHost):
    """Remembers what was run."""

    runs: list[tuple[str, ...]]

    def run(self, argv, timeout_seconds):
        self.runs.append(tuple(argv))
        return super().run(argv, timeout_seconds)


@pytest.fixture(scope="module")
def real_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of real mstlink and mstconfig alone: this machine's, or Debian's unpacked."""
    tools = tmp_path_factory.mktemp("tools")
    if all(shutil.which(tool, path=TOOL_PATH) for tool in REAL):
        for tool in REAL:
            (tools / tool).symlink_to(shutil.which(tool, path=TOOL_PATH) or "")
        return tools
    place = ROOT / "build" / "mstflint"
    if not (place / "usr/bin/mstlink").exists():
        debs = place / "debs"
        debs.mkdir(parents=True, exist_ok=True)
        fetch = ["apt-get", "download", *PACKAGES]
        if not shutil.which("apt-get") or subprocess.run(fetch, cwd=debs, check=False, timeout=300).returncode:
            pytest.skip("there is no mstflint here, and apt-get does not fetch Debian 12's")
        for deb in debs.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", deb, place], check=True)
    for tool in REAL:
        libraries = f"{place}/usr/lib/x86_64-linux-gnu:{place}/lib/x86_64-linux-gnu"
        (tools / tool).write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {place}/usr/bin/{tool} "$@"\n')
        (tools / tool).chmod(0o755)
    return tools


@pytest.fixture
def host(real_tools: Path) -> Asked:
    found = Asked(str(real_tools))
    found.runs = []
    return found


@pytest.fixture
def nowhere(expect):
    """A class with one rail, at an address at which there is nothing."""
    expect["nic"]["rails"] = [{"rail": 0, "address": NOWHERE}]
    expect["nic"]["firmware_settings"] = [{"key": "NUM_OF_VFS", "wanted": "0"}]
    return typed(expect)


@pytest.mark.parametrize("probe", [mlxlink, cables])
def test_real_mstlink_knows_every_option_and_says_why_it_has_no_report(probe, host, nowhere):
    found = probe.parse(probe.collect(host, nowhere))
    assert (found.links, list(found.unread)) == ({}, ["rail0"])
    assert found.unread["rail0"].startswith(f'exit status 1: -E- Failed to open device: "{NOWHERE}"')
    assert found.unread["rail0"].isprintable()
    ours = host.runs[-1]
    assert ours[0] == "mstlink"
    unknown = host.run((*ours, "--no_such_option"), 30)
    assert unknown.rc == 1 and "unrecognized option `--no_such_option'" in unknown.stderr


def test_real_mstconfig_knows_its_options_and_says_why_it_has_no_table(host, nowhere):
    found = nic_config.parse(nic_config.collect(host, nowhere))
    assert found == {"rail0": "exit status 3: -E- Failed to open the device"}
    tool, device, address, *words = host.runs[-1]
    assert (tool, words) == ("mstconfig", ["-e", "query"])
    unknown = host.run((tool, device, address, "--no_such_option", *words), 60)
    assert unknown.rc == 3 and "invalid argument: --no_such_option" in unknown.stdout
