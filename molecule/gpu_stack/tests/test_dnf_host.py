"""What the roles must do on a host of dnf; the cases follow each other on it."""

from __future__ import annotations

import re
from collections import Counter

from stack_hosts import CLASSES, NEW_DRIVER, OLD_DRIVER, Play, declared, on, play

HOST = "stack-el"
OLD = declared("stand_in_el")
NEW = {
    "nvidia-driver-cuda": "3:570.124.06-1.el9",
    "kmod-nvidia-open-dkms": "3:570.124.06-1.el9",
    "nvidia-fabric-manager": "570.124.06-1",
    "datacenter-gpu-manager-4-cuda12": "1:4.4.1-1",
    "datacenter-gpu-manager-4-proprietary": "1:4.4.1-1",
    "datacenter-gpu-manager-4-proprietary-cuda12": "1:4.4.1-1",
    "libnccl": "2.27.3-1+cuda12.9",
    "libnccl-devel": "2.27.3-1+cuda12.9",
}
# What the declared ones need, in the version of each.
PULLED_IN = {
    "nvidia-driver-cuda": ("nvidia-driver-cuda-libs", "nvidia-kmod-common", "nvidia-persistenced", "libnvidia-ml"),
    "datacenter-gpu-manager-4-cuda12": ("datacenter-gpu-manager-4-core",),
}
LOCKS = "/etc/dnf/plugins/versionlock.list"
SITES_LOCK = "kernel-core-0:5.14.0-503.11.1.el9_5.*"
PLACES = "/etc /tmp /usr/local /var/cache/dnf /var/lib/dnf /var/log/dnf.log /var/log/hawkey.log"
CUT = "/opt/lab/power_cut"


def play_here(packages: dict[str, str], driver: str, *arguments: str, **variables: object) -> Play:
    """Run role gpu_stack on the host."""
    return play(packages, driver, *arguments, target=HOST, **variables)


def installed() -> list[tuple[str, str]]:
    """Return name and version of each package that rpm has, one in two versions twice."""
    text = on(HOST, "rpm -qa --queryformat '%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\n'")
    rows = [line.split() for line in text.splitlines()]
    return sorted((name, version.removeprefix("0:")) for name, version in rows if name != "gpg-pubkey")


def twice() -> list[str]:
    """Return the packages that rpm has in two versions."""
    return [name for name, count in Counter(name for name, _version in installed()).items() if count > 1]


def of_stack(packages: dict[str, str]) -> dict[str, str]:
    """Return what has to be there of the stack: what is declared, and what it needs in the same version."""
    needed = {name: packages[each] for each, names in PULLED_IN.items() for name in names}
    return {**packages, **needed}


def found(packages: dict[str, str]) -> dict[str, str]:
    """Return what is there of those packages."""
    there = dict(installed())
    return {name: there.get(name, "absent") for name in packages}


def trace() -> str:
    """Return everything that a run could have changed."""
    files = on(HOST, f"find {PLACES} -type f -printf '%p %s %T@\n' | sort")
    running = on(HOST, "systemctl list-units --type=service --state=running --no-legend --plain | cut -d' ' -f1")
    return "\n".join([repr(installed()), files, running])


def requests() -> int:
    """Return how many files the host has fetched from repositories."""
    return int(on("stack-ctl", "journalctl --unit repository --output cat | grep -c '^10.78.0.13 '"))


def test_first_install_has_exactly_what_is_declared() -> None:
    wanted = of_stack(OLD)
    assert found(wanted) == wanted
    assert OLD_DRIVER in on(HOST, "cat /opt/lab/root/proc/driver/nvidia/version")
    for unit in CLASSES["stand_in_el"]["gpu_stack"]["services"]:
        assert on(HOST, f"systemctl is-active {unit}; systemctl is-enabled {unit}") == "active\nenabled", unit


def test_base_packages_have_the_names_of_the_system() -> None:
    names = {name for name, _version in installed()}
    tools = {"curl", "dmidecode", "fio", "numactl", "pciutils", "procps-ng", "smartmontools", "stress-ng"}
    assert {"chrony", *tools} <= names
    assert on(HOST, "systemctl is-active chronyd; systemctl is-enabled chronyd") == "active\nenabled"


def test_second_run_changes_nothing_and_asks_no_repository() -> None:
    before = requests()
    run = play_here(OLD, OLD_DRIVER)
    assert (run.rc, run.changed) == (0, 0), run.text
    assert requests() == before > 0


def test_ordinary_upgrade_of_the_host_goes_through_and_leaves_the_stack_alone() -> None:
    assert "libnccl-0:2.27.3" in on(HOST, "dnf -q repoquery --disableplugin=versionlock libnccl")
    before = installed()
    on(HOST, "dnf -y upgrade")
    assert installed() == before


def test_check_mode_shows_the_upgrade_and_leaves_no_trace() -> None:
    before = trace()
    run = play_here(NEW, NEW_DRIVER, "--check")
    assert run.rc == 0 and run.changed, run.text
    assert f"+libnccl {NEW['libnccl']}" in run.text and f"-libnccl {OLD['libnccl']}" in run.text
    assert trace() == before


def test_absent_version_is_named_and_nothing_changes() -> None:
    before = trace()
    run = play_here({**OLD, "libnccl": "2.99.1-1+cuda12.8"}, OLD_DRIVER)
    assert run.failed and run.changed == 0, run.text
    assert "libnccl: wanted 2.99.1-1+cuda12.8, available 2.27.3-1+cuda12.9, 2.26.2-1+cuda12.8" in run.words
    assert trace() == before


def test_fabric_manager_of_another_version_than_the_driver_is_refused() -> None:
    run = play_here({**OLD, "nvidia-fabric-manager": "570.124.06-1"}, OLD_DRIVER)
    assert run.failed and run.changed == 0, run.text
    assert "nvidia-fabric-manager is declared as 570.124.06-1, the driver as 570.86.15" in run.words


def test_package_with_another_signature_is_refused() -> None:
    key = on("stack-ctl", "cat /opt/lab/repository/signing_key.asc")
    places = ("rhel9", "forged")
    given = [{"url": f"http://10.78.0.10:8080/repository/{place}", "signing_key": key} for place in places]
    before = installed()
    run = play_here({**OLD, "libnccl": "2.28.9-1+cuda12.9"}, OLD_DRIVER, gpu_stack_repositories=given)
    assert run.failed and re.search(r"libnccl-2\.28\.9\S* is not installed|GPG check FAILED", run.words), run.text
    assert installed() == before


def test_declaration_from_before_is_there_again_after_it() -> None:
    run = play_here(OLD, OLD_DRIVER)
    assert run.rc == 0, run.text
    assert "forged" not in on(HOST, "cat /etc/yum.repos.d/muster-gpu-stack.repo")
    assert on(HOST, f"grep -c 2.28.9 {LOCKS}", check=False) == "0"


def test_installation_that_lost_its_power_is_repaired() -> None:
    on(HOST, f"touch {CUT}")
    run = play_here(NEW, NEW_DRIVER)
    on(HOST, f"rm {CUT}")
    assert run.failed, run.text
    assert twice()
    run = play_here(NEW, NEW_DRIVER)
    assert f"driver {OLD_DRIVER} is loaded, declared is {NEW_DRIVER}: reboot the node" in run.words, run.text
    wanted = of_stack(NEW)
    assert found(wanted) == wanted
    assert not twice()
    assert on(HOST, "cat /usr/lib/stand-in/driver /usr/lib64/libnccl.so.2.27.3") == f"{NEW_DRIVER}\nstand-in"


def test_package_that_is_declared_no_longer_goes_with_its_lock() -> None:
    assert "nvidia-container-toolkit" not in dict(installed())
    locks = on(HOST, f"cat {LOCKS}").splitlines()
    assert SITES_LOCK in locks
    assert f"libnccl-{NEW['libnccl']}.*" in locks
    assert not [line for line in locks if line.startswith("nvidia-container-toolkit") or OLD_DRIVER in line]


def test_older_versions_can_be_declared_again() -> None:
    # The driver that is loaded is still theirs.
    run = play_here(OLD, OLD_DRIVER)
    assert run.rc == 0 and run.changed, run.text
    wanted = of_stack(OLD)
    assert found(wanted) == wanted
    assert not twice()
    again = play_here(OLD, OLD_DRIVER)
    assert (again.rc, again.changed) == (0, 0), again.text
