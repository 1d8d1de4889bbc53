"""systemctl's words and exit codes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.systemd import Systemd, SystemdError

from tests.contracts.table import refuse_unknown


class Fake:
    def __init__(self, **outputs: Output) -> None:
        self.outputs = outputs
        self.ran: list[str] = []

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        refuse_unknown(argv)
        self.ran.append(" ".join(argv))
        return self.outputs.get(argv[1].replace("-", "_"), Output())

    def read(self, path: str) -> Output:
        raise AssertionError(path)

    def paths(self, *patterns: str) -> list[str]:
        raise AssertionError(patterns)


@pytest.mark.parametrize(
    ("output", "state", "active"),
    [
        (Output("active\n"), "active", True),
        (Output("reloading\n"), "reloading", True),
        (Output("activating\n", rc=3), "activating", False),
        (Output("failed\n", rc=3), "failed", False),
        # A unit that does not exist.
        (Output("inactive\n", rc=4), "inactive", False),
        (Output(rc=None, error="systemctl: not found"), "", False),
    ],
)
def test_state_is_the_word_and_active_the_exit_status(output: Output, state: str, active: bool) -> None:
    systemd = Systemd(Fake(is_active=output))
    assert (systemd.state("slurmd"), systemd.is_active("slurmd")) == (state, active)


def test_unit_that_does_not_start_at_boot_is_no_error_and_a_host_without_systemd_is() -> None:
    assert Systemd(Fake(is_enabled=Output("disabled\n", rc=1))).enabled("a") == "disabled"
    assert Systemd(Fake(is_enabled=Output("", "No such file", 1))).enabled("a") == ""
    with pytest.raises(SystemdError, match="systemctl is-enabled a: systemctl: not found"):
        Systemd(Fake(is_enabled=Output(rc=None, error="systemctl: not found"))).enabled("a")


def test_properties_come_by_name() -> None:
    host = Fake(show=Output("ActiveState=active\nExecStart={ path=/x ; a=b }\n"))
    assert Systemd(host).properties("a", ("ActiveState", "ExecStart")) == {
        "ActiveState": "active",
        "ExecStart": "{ path=/x ; a=b }",
    }
    assert host.ran == ["systemctl show --property=ActiveState,ExecStart a"]


def test_change_that_fails_says_which_and_what_systemd_said() -> None:
    host = Fake(restart=Output("", "Job for a.service failed.\nSee journalctl.\n", 1))
    systemd = Systemd(host)
    systemd.stop("a", "b")
    systemd.start("a")
    systemd.reload_files()
    with pytest.raises(SystemdError, match=r"systemctl restart a: Job for a\.service failed\.$"):
        systemd.restart("a")
    assert host.ran == ["systemctl stop a b", "systemctl start a", "systemctl daemon-reload", "systemctl restart a"]
    host.outputs["enable"] = Output(rc=None, error="no answer within 120 s", timed_out=True)
    with pytest.raises(SystemdError, match="systemctl enable a: no answer within 120 s"):
        systemd.do("enable", "a")
