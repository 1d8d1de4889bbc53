"""What the role must do on a host that others have had their hands on; the cases follow each other on one host."""

from __future__ import annotations

import re
import time

import pytest
from stack_hosts import BOOT_ID, CLASSES, LOADED, NEW_DRIVER, OLD_DRIVER, declared, on, play, power_button

SERVICES = CLASSES["stand_in"]["gpu_stack"]["services"]
OLD = declared("stand_in")
NEW = {
    "nvidia-open-570": "570.124.06-0ubuntu1",
    "nvidia-fabricmanager-570": "570.124.06-1",
    "datacenter-gpu-manager-4-cuda12": "1:4.4.1-1",
    "datacenter-gpu-manager-4-proprietary": "1:4.4.1-1",
    "datacenter-gpu-manager-4-proprietary-cuda12": "1:4.4.1-1",
    "libnccl2": "2.27.3-1+cuda12.9",
    "libnccl-dev": "2.27.3-1+cuda12.9",
}
REASON = "muster: gpu_stack changes this node"
PLACES = "/etc /opt/muster /usr/local /var/lib/apt /var/cache/apt /var/lib/dpkg"


def versions(host: str = "stack-01") -> dict[str, str]:
    """Return the installed packages of the stack."""
    text = on(host, "dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n'")
    rows = [line.split() for line in text.splitlines()]
    named = re.compile(r"nvidia|libnccl|datacenter-gpu-manager")
    return {row[0]: row[1] for row in rows if named.search(row[0]) and row[2] == "installed"}


def held(host: str = "stack-01") -> set[str]:
    """Return the packages that stay as they are."""
    return set(on(host, "apt-mark showhold").split())


def node(host: str = "stack-01") -> str:
    """Return what Slurm says of a node."""
    return on("stack-ctl", f"scontrol show node {host} --oneliner")


def trace(host: str = "stack-01") -> str:
    """Return everything that a run could have changed."""
    return "\n".join(
        [
            on(host, "dpkg-query -W -f '${Package} ${Version} ${Status}\n'; apt-mark showhold"),
            on(
                host,
                f"find {PLACES} -type f -printf '%p %s %T@\n' | sort",
            ),
            on(host, "systemctl list-units --type=service --state=running --no-legend --plain | cut -d' ' -f1"),
            re.sub(r"(CPULoad|FreeMem|LastBusyTime|BootTime|SlurmdStartTime)=\S+", "", node(host)),
        ]
    )


@pytest.mark.parametrize("host", ["stack-01", "stack-02"])
def test_first_install_has_exactly_what_is_declared(host: str) -> None:
    found = versions(host)
    assert {name: found.get(name) for name in OLD} == OLD
    # What the packages pull in is of their version too, though the repository has newer ones.
    assert found["nvidia-dkms-570-open"] == "570.86.15-0ubuntu1"
    assert found["datacenter-gpu-manager-4-core"] == "1:4.2.3-1"
    assert held(host) == set(OLD)
    assert OLD_DRIVER in on(host, f"cat {LOADED}")


@pytest.mark.parametrize("host", ["stack-01", "stack-02"])
def test_services_run_and_persistence_is_on(host: str) -> None:
    for unit in SERVICES:
        assert on(host, f"systemctl is-active {unit}; systemctl is-enabled {unit}") == "active\nenabled", unit
    command = on(
        host,
        "systemctl show -P ExecStart nvidia-persistenced",
    )
    assert "--persistence-mode" in command


@pytest.mark.parametrize("host", ["stack-01", "stack-02"])
def test_tools_were_built_once_and_are_in_the_path(host: str) -> None:
    assert on(host, "cat $(command -v all_reduce_perf) $(command -v nvbandwidth)") == "built\nbuilt"
    assert not on(host, "ls /var/cache/muster/tools", check=False)


def test_ordinary_upgrade_of_the_host_leaves_the_stack_alone() -> None:
    assert "570.124.06" in on("stack-01", "apt-cache madison nvidia-open-570")
    for command in ("upgrade", "dist-upgrade"):
        assert "Inst nvidia" not in on("stack-01", f"apt-get --simulate {command}")


def test_node_takes_jobs_after_the_installation() -> None:
    assert "DRAIN" not in node("stack-01") + node("stack-02")


def test_check_mode_shows_the_upgrade_and_leaves_no_trace() -> None:
    before = trace()
    run = play(NEW, NEW_DRIVER, "--check")
    assert run.rc == 0 and run.changed, run.text
    assert f"+libnccl2 {NEW['libnccl2']}" in run.text and f"-libnccl2 {OLD['libnccl2']}" in run.text
    assert trace() == before


def test_absent_version_is_named_and_nothing_changes() -> None:
    before = trace()
    run = play({**OLD, "libnccl2": "2.99.1-1+cuda12.8", "libnccl-dev": "2.26.2-1+cuda12.8"}, OLD_DRIVER)
    assert run.failed and run.changed == 0, run.text
    assert "libnccl2: wanted 2.99.1-1+cuda12.8, available 2.27.3-1+cuda12.9, 2.26.2-1+cuda12.8" in run.words
    assert trace() == before


def test_fabric_manager_of_another_version_than_the_driver_is_refused() -> None:
    run = play({**OLD, "nvidia-fabricmanager-570": "570.124.06-1"}, OLD_DRIVER)
    assert run.failed and run.changed == 0, run.text
    assert "nvidia-fabricmanager-570 is declared as 570.124.06-1, the driver as 570.86.15" in run.words


def test_repository_without_its_key_is_refused_and_nothing_changes() -> None:
    other = on(
        "stack-ctl",
        "head -c 300 /opt/lab/repository/signing_key.asc; echo; echo '-----END PGP PUBLIC KEY BLOCK-----'",
    )
    before = trace()
    wrong = [{"url": "http://10.78.0.10:8080/repository", "signing_key": other}]
    run = play(NEW, NEW_DRIVER, gpu_stack_repositories=wrong)
    assert run.failed and "the repositories cannot be read" in run.words, run.text
    assert trace() == before


def test_half_installed_driver_is_repaired() -> None:
    on("stack-01", "touch /opt/lab/dkms_fails; apt-get -y install --reinstall nvidia-dkms-570-open", check=False)
    on("stack-01", "rm /opt/lab/dkms_fails")
    assert "half-configured" in on("stack-01", "dpkg-query -W -f '${Status}' nvidia-dkms-570-open")
    # As a host that lost power while dpkg was unpacking leaves it.
    edit = "/^Package: libnccl2$/,/^$/s/^Status: .*/Status: hold reinstreq half-installed/"
    on("stack-01", f"sed -i '{edit}' /var/lib/dpkg/status; rm /usr/lib/x86_64-linux-gnu/libnccl.so.2.26.2")
    run = play(OLD, OLD_DRIVER)
    assert run.rc == 0 and run.changed, run.text
    found = versions()
    assert {name: found.get(name) for name in OLD} == OLD
    assert held() == set(OLD)
    assert on("stack-01", "dpkg --audit") == ""
    assert on("stack-01", "cat /usr/lib/x86_64-linux-gnu/libnccl.so.2.26.2") == "stand-in"


def test_repaired_host_is_left_alone() -> None:
    run = play(OLD, OLD_DRIVER)
    assert (run.rc, run.changed) == (0, 0), run.text


def test_files_of_nvlink_are_written_under_a_drain_and_once() -> None:
    trays = ["10.78.0.11", "10.78.0.12"]
    # A module that the lab shows as loaded: a container has none of its own to load.
    given = {"gpu_stack_imex_nodes": trays, "gpu_stack_modules": ["ib_core"]}
    run = play(OLD, OLD_DRIVER, **given)
    assert run.rc == 0 and run.changed, run.text
    written = {
        "/etc/nvidia-imex/nodes_config.cfg": trays,
        "/etc/modprobe.d/muster-nvidia-imex.conf": ["options nvidia NVreg_CreateImexChannel0=1"],
        "/etc/modules-load.d/muster-gpu-stack.conf": ["ib_core"],
    }
    for path, lines in written.items():
        found = on("stack-01", f"cat {path}").splitlines()
        assert [line for line in found if not line.startswith("#")] == lines, path
    # Whoever reads them is started anew, no job beneath: the node was drained for it, and takes jobs again.
    drained = run.text.partition("Drain the node]")[2].partition("TASK")[0]
    assert "changed: [stack-01]" in drained and "DRAIN" not in node(), run.text
    again = play(OLD, OLD_DRIVER, **given)
    assert (again.rc, again.changed) == (0, 0), again.text


def test_node_with_a_job_is_drained_and_nothing_else() -> None:
    on("stack-ctl", "runuser -u muster -- sbatch -D /tmp -o /dev/null -p acceptance -w stack-02 --wrap 'sleep 900'")
    deadline = time.monotonic() + 60
    while "ALLOCATED" not in node("stack-02") and "MIXED" not in node("stack-02"):
        assert time.monotonic() < deadline, node("stack-02") + on("stack-ctl", "squeue -l")
        time.sleep(0.5)
    run = play(NEW, NEW_DRIVER, target="stack-02")
    assert run.failed and "still runs jobs" in run.words, run.text
    assert "DRAIN" in node("stack-02") and REASON in node("stack-02")
    assert versions("stack-02")["libnccl2"] == OLD["libnccl2"]
    on("stack-ctl", "scancel -u muster")


def test_upgrade_installs_but_does_not_reboot_without_the_switch() -> None:
    boot = on("stack-01", f"cat /opt/lab/root{BOOT_ID}")
    run = play(NEW, NEW_DRIVER)
    assert run.failed, run.text
    assert (
        f"driver {OLD_DRIVER} is loaded, declared is {NEW_DRIVER}: reboot the node or set gpu_stack_allow_reboot"
        in run.words
    )
    found = versions()
    assert {name: found.get(name) for name in NEW} == NEW
    # It is declared no longer.
    assert "nvidia-container-toolkit" not in found
    assert held() == set(NEW)
    assert "DRAIN" in node() and REASON in node()
    assert on("stack-01", f"cat /opt/lab/root{BOOT_ID}") == boot


def test_node_that_waits_for_its_reboot_stays_as_it_is() -> None:
    before = trace()
    run = play(NEW, NEW_DRIVER)
    assert run.failed and run.changed == 0, run.text
    assert trace() == before


def test_switch_reboots_the_node_and_gives_it_back() -> None:
    with power_button("stack-01"):
        run = play(NEW, NEW_DRIVER, gpu_stack_allow_reboot=True)
    assert run.rc == 0 and run.changed, run.text
    assert NEW_DRIVER in on("stack-01", f"cat {LOADED}")
    assert "DRAIN" not in node() and "DOWN" not in node()
    for unit in SERVICES:
        assert on("stack-01", f"systemctl is-active {unit}") == "active", unit


def test_second_run_with_the_switch_changes_nothing() -> None:
    run = play(NEW, NEW_DRIVER, gpu_stack_allow_reboot=True)
    assert (run.rc, run.changed) == (0, 0), run.text


def test_older_versions_can_be_declared_again() -> None:
    with power_button("stack-01"):
        run = play(OLD, OLD_DRIVER, gpu_stack_allow_reboot=True)
    assert run.rc == 0, run.text
    found = versions()
    assert {name: found.get(name) for name in OLD} == OLD
