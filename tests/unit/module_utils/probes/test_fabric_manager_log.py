"""The fabric manager's log: what is read of it, and what is no such log."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import fabric_manager_log

from tests.typed import typed
from tests.unit.module_utils.conftest import healthy

BEGUN = "Fabric Manager version 570.86.15 is running with the following configuration options"
START = f"[Feb 25 2025 13:59:45] [INFO] [tid 7] {BEGUN}"


def test_only_the_end_of_the_declared_log_is_read(fake_host, expect):
    fabric_manager_log.collect(fake_host, typed({**expect, "tools": {"path": "/usr/bin", "root": "/opt/lab/root"}}))
    assert fake_host.runs == [("tail", "-c", "262144", "/opt/lab/root/var/log/fabricmanager.log")]


def test_log_begins_with_the_last_start():
    entries = fabric_manager_log.parse(Output(healthy("fabric_manager_log")))
    assert "is running with the following" in entries[0].text
    assert {entry.level for entry in entries} == {"INFO", ""}
    text = healthy("fabric_manager_log") + START.replace("2025", "2027")
    again = fabric_manager_log.parse(Output(text))
    assert [entry.stamp for entry in again] == ["Feb 25 2027 13:59:45"]


def test_line_that_is_younger_than_the_start_counts_wherever_it_stands():
    old, new = "[Feb 25 2025 13:59:44] [ERROR] [tid 1] old\n", "[Feb 25 2025 13:59:45] [ERROR] [tid 1] new\n"
    entries = fabric_manager_log.parse(Output(f"{new}{old}{START}\n"))
    assert [entry.text for entry in entries] == ["new", BEGUN]


def test_log_without_a_start_is_taken_whole():
    text = "cut off here\n[Jul 09 2024 18:14:07] [ERROR] [tid 1] one\r\n[Sep  8 2025 23:21:50] [CRITICAL] two"
    assert fabric_manager_log.parse(Output(text)) == (
        fabric_manager_log.Entry("", "", "cut off here"),
        fabric_manager_log.Entry("Jul 09 2024 18:14:07", "ERROR", "one", 1720548847.0),
        fabric_manager_log.Entry("Sep  8 2025 23:21:50", "CRITICAL", "two", 1757373710.0),
    )


def test_journal_in_another_language_is_read():
    (entry,) = fabric_manager_log.parse(
        Output("11\u6708 15 14:15:47 gpu-01 nv-fabricmanager[77]: request to query NVSwitch failed with error\n")
    )
    assert (entry.stamp, entry.level) == ("11\u6708 15 14:15:47", "ERROR")


@pytest.mark.parametrize(
    "output",
    [
        Output(""),
        Output("\n\n"),
        Output("\x00\ufffd\x00\n"),
        Output("2025-01-01T00:00:00 host kernel: another log\n"),
        Output("", "tail: cannot open '/var/log/fabricmanager.log' for reading: No such file or directory", 1),
    ],
)
def test_what_is_no_such_log_is_unreadable(output):
    with pytest.raises(Unreadable):
        fabric_manager_log.parse(output)
