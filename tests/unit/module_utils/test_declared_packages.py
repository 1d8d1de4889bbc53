"""What has to be done to bring a host to declared packages, and what is refused before anything is."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host import (
    apt_packages,
    declared_packages,
    packages,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.apt import parse_available
from ansible_collections.muster.cluster.plugins.module_utils.host.apt_packages import AptPackages, preferences_text
from ansible_collections.muster.cluster.plugins.module_utils.host.declared_packages import (
    DeclaredPackages,
    check_driver,
    upstream,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.dnf_packages import DnfPackages
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output
from ansible_collections.muster.cluster.plugins.module_utils.host.packages import (
    Declaration,
    Installed,
    PackageError,
    missing,
    plan,
)

from tests.contracts.table import refuse_unknown

WANTED = {"nvidia-open-570": "570.86.15-0ubuntu1", "libnccl2": "2.26.2-1+cuda12.8"}
SOUND = {name: Installed(version, held=True) for name, version in WANTED.items()}


def stack_of(packages, repositories=()):
    return Declaration("gpu_stack", packages, repositories, stack=True, together=("570.86.15-*",))


STACK = stack_of(WANTED)


@pytest.mark.parametrize(
    ("version", "expected"),
    [("570.86.15-0ubuntu1", "570.86.15"), ("1:4.2.3-1", "4.2.3"), ("2.26.2-1+cuda12.8", "2.26.2"), ("580", "580")],
)
def test_upstream(version, expected):
    assert upstream(version) == expected


def test_host_as_declared_needs_nothing():
    planned = plan(STACK, WANTED, SOUND)
    assert planned.steps() == [] and not planned.disruptive


def test_hold_alone_disturbs_nobody():
    planned = plan(STACK, (), {**SOUND, "libnccl2": Installed("2.26.2-1+cuda12.8")})
    assert planned.steps() == ["hold libnccl2"] and not planned.disruptive


@pytest.mark.parametrize(
    ("there", "step"),
    [
        ({}, "install libnccl2 2.26.2-1+cuda12.8"),
        ({"libnccl2": Installed("2.26.2-1+cuda12.8", "config-files")}, "install libnccl2 2.26.2-1+cuda12.8"),
        ({"libnccl2": Installed("2.26.2-1+cuda12.8", "not-installed")}, "install libnccl2 2.26.2-1+cuda12.8"),
        (
            {"libnccl2": Installed("2.25.1-1+cuda12.8", held=True)},
            "install libnccl2 2.26.2-1+cuda12.8 in place of 2.25.1-1+cuda12.8",
        ),
        # Newer than declared is as wrong as older.
        (
            {"libnccl2": Installed("2.27.3-1+cuda12.9", held=True)},
            "install libnccl2 2.26.2-1+cuda12.8 in place of 2.27.3-1+cuda12.9",
        ),
    ],
)
def test_other_version_is_replaced(there, step):
    status = {"nvidia-open-570": SOUND["nvidia-open-570"], **there}
    planned = plan(STACK, (), status)
    assert step in planned.steps() and planned.disruptive


@pytest.mark.parametrize("state", ["half-configured", "half-installed", "unpacked", "triggers-pending"])
def test_package_that_stopped_half_way_is_repaired_whoever_declared_it(state):
    planned = plan(STACK, (), {**SOUND, "nvidia-dkms-570-open": Installed("570.86.15-0ubuntu1", state)})
    assert planned.steps() == [f"repair nvidia-dkms-570-open, which is {state}"] and planned.disruptive


def test_package_of_others_that_stopped_half_way_is_left_to_them_where_nothing_is_to_be_installed():
    tools = Declaration("host_base", {"fio": ""})
    broken = Installed("570.86.15-0ubuntu1", "half-configured")
    assert plan(tools, (), {"fio": Installed("3.33-3"), "nvidia-dkms-570-open": broken}).steps() == []
    assert plan(tools, (), {"nvidia-dkms-570-open": broken}).steps() == [
        "repair nvidia-dkms-570-open, which is half-configured",
        "install fio",
    ]
    assert plan(tools, (), {"fio": Installed("3.33-3", "unpacked")}).steps() == ["repair fio, which is unpacked"]


def test_package_declared_earlier_is_removed_and_a_strangers_is_not():
    status = {**SOUND, "nvidia-open-565": Installed("565.57.01-0ubuntu1", held=True), "vim": Installed("9")}
    assert plan(STACK, ["nvidia-open-565", "gone"], status).steps() == ["remove nvidia-open-565"]


def test_package_without_a_version_is_taken_as_it_is_or_as_another_provides_it():
    tools = Declaration("host_base", {"fio": "", "libopenmpi3": "", "mstflint": "4.34.0-1"})
    status = {"fio": Installed("3.33-3"), "mstflint": Installed("4.21.0-1")}
    planned = plan(tools, ["gone"], {**status, "gone": Installed("1")}, ["libopenmpi3"])
    # Nobody but a stack holds what it has, and removes what it had.
    assert planned.steps() == ["install mstflint 4.34.0-1 in place of 4.21.0-1"]
    assert plan(tools, (), {}).steps() == ["install fio", "install libopenmpi3", "install mstflint 4.34.0-1"]


def test_missing_version_is_named_with_those_there_are():
    available = parse_available(
        " libnccl2 | 2.27.3-1+cuda12.9 | http://m/ubuntu2404  Packages\n"
        " libnccl2 | 2.25.1-1+cuda12.8 | http://m/ubuntu2404  Packages\n"
        " libnccl2 | 2.25.1-1+cuda12.8 | http://n/ubuntu2404  Packages\n"
    )
    assert missing(WANTED, available) == [
        "libnccl2: wanted 2.26.2-1+cuda12.8, available 2.27.3-1+cuda12.9, 2.25.1-1+cuda12.8",
        "nvidia-open-570: wanted 570.86.15-0ubuntu1, available none",
    ]


@pytest.mark.parametrize(
    ("packages", "said"),
    [
        ({**WANTED, "nvidia-fabricmanager-570": "570.124.06-1"}, "the driver as 570.86.15"),
        ({**WANTED, "nvidia-fabric-manager": "570.124.06-1"}, "the driver as 570.86.15"),
        ({**WANTED, "nvidia-imex-570": "570.124.06-1"}, "the driver as 570.86.15"),
        ({"libnccl2": "2.26.2-1+cuda12.8"}, "none of the packages libnccl2 is the driver"),
        # A fabric manager alone is no driver.
        ({"nvidia-fabricmanager-570": "570.86.15-1"}, "is the driver 570.86.15"),
        ({"nvidia-imex-570": "570.86.15-1"}, "is the driver 570.86.15"),
        ({}, r"none of the packages \(none\)"),
    ],
)
def test_stack_without_its_driver_is_refused(packages, said):
    with pytest.raises(PackageError, match=said):
        check_driver("570.86.15", packages)


@pytest.mark.parametrize("driver", [{**WANTED, "nvidia-fabricmanager-570": "570.86.15-1"}, {"a": "3:570.86.15-1.el9"}])
def test_stack_with_its_driver_is_taken(driver):
    check_driver("570.86.15", driver)


@pytest.mark.parametrize(
    ("manager", "name", "version", "said"),
    [
        (AptPackages, "libnccl2", "latest", "exact version"),
        (AptPackages, "libnccl2", "2.26.*", "exact version"),
        (AptPackages, "libnccl2", "", "exact version"),
        (AptPackages, "-o=x", "1", "expected a Debian package's name"),
        (DnfPackages, "nvidia-driver", "570.86.15", "an RPM's name and its exact version with release"),
        (DnfPackages, "nvidia-driver", "0:570.86.15-1", "epoch unless that is 0"),
        (DnfPackages, "--repo=x", "1-1", "expected an RPM's name"),
    ],
)
def test_what_is_no_exact_package_is_refused(manager, name, version, said):
    with pytest.raises(PackageError, match=said):
        DeclaredPackages(manager(LocalHost(), 1), stack_of({name: version}))


def test_preferences_say_which_packages_were_declared(tmp_path, monkeypatch):
    text = preferences_text(STACK)
    assert "Pin: version 570.86.15-*" in text and "Package: nvidia-* libnvidia-*" in text
    monkeypatch.setattr(apt_packages, "text_of", {"/etc/apt/preferences.d/muster-gpu-stack.pref": text}.__getitem__)
    assert AptPackages(LocalHost(), 1).declared_before(STACK) == sorted(WANTED)
    # Without exact versions there is no such file.
    assert preferences_text(Declaration("host_base", {"fio": ""})) == ""


class Tools:
    """apt and dpkg of a host that has ``there``; what is to be installed is there afterwards unless ``deaf``."""

    def __init__(self, there, available, deaf=False, simulated=""):
        self.there, self.available, self.deaf, self.simulated = dict(there), available, deaf, simulated
        self.held = set()
        self.ran = []

    def run(self, argv, timeout_seconds):
        refuse_unknown(argv)
        self.ran.append(list(argv))
        if argv[0] == "dpkg-query":
            lines = [
                f"{name}\t{version}\t{'hold' if name in self.held else 'install'}\tinstalled\tok\n"
                for name, version in self.there.items()
            ]
            return Output("".join(lines))
        if "madison" in argv:
            return Output("".join(f"{name} | {version} | http://m\n" for name, version in self.available.items()))
        if argv[0] == "apt-mark":
            self.held |= set(argv[2:])
        if "--simulate" in argv:
            return Output(self.simulated)
        if "install" in argv and not self.deaf:
            for word in argv:
                name, equals, version = word.partition("=")
                if equals and name in WANTED:
                    self.there[name] = version
                    self.held.discard(name)
                elif word.endswith("-"):
                    self.there.pop(word[:-1], None)
        return Output()

    def changes(self):
        return [argv for argv in self.ran if argv[0] == "apt-get" and "install" in argv and "--simulate" not in argv]


PREFERENCES = "/etc/apt/preferences.d/muster-gpu-stack.pref"


@pytest.fixture
def etc(monkeypatch):
    """Return the package manager's files, which are none of this machine's."""
    files = {}
    for module in (packages, apt_packages):
        monkeypatch.setattr(module, "text_of", lambda path: files.get(path, ""))
    monkeypatch.setattr(declared_packages, "replace_file", lambda path, text, mode: files.update({path: text}))
    return files


@pytest.fixture
def stack(etc):
    """Return a stack on a host whose apt, dpkg and preferences are these."""

    def made(tools, preferences=""):
        etc[PREFERENCES] = preferences
        return DeclaredPackages(AptPackages(tools, 1), STACK)

    return made


def test_run_that_is_killed_does_not_forget_what_is_to_go(stack, etc):
    tools = Tools({"nvidia-open-565": "565.57.01-1"}, WANTED)
    killed = stack(tools, "Package: nvidia-open-565\n")
    killed.write()
    assert "# To be removed: nvidia-open-565\nPackage: libnccl2\n" in etc[PREFERENCES]
    again = DeclaredPackages(AptPackages(tools, 1), STACK)
    assert again.differences() == [] and "remove nvidia-open-565" in again.plan().steps()
    again.install(again.plan())
    assert "nvidia-open-565" not in etc[PREFERENCES] and "nvidia-open-565" not in tools.there
    last = DeclaredPackages(AptPackages(tools, 1), STACK)
    assert last.differences() == [] and last.plan().steps() == []


def test_rehearsal_tells_what_apt_removes_besides_and_changes_nothing(stack):
    tools = Tools(
        {"nvidia-open-565": "565.57.01-1"}, WANTED, simulated="Remv nvidia-open-565 [1]\nRemv nvidia-dkms [1]\n"
    )
    there = stack(tools, "Package: nvidia-open-565\n")
    assert there.rehearse(there.plan()) == ["nvidia-dkms"]
    assert tools.changes() == [] and tools.held == set()
    (simulated,) = [argv for argv in tools.ran if "--simulate" in argv]
    assert "nvidia-open-565-" in simulated and "libnccl2=2.26.2-1+cuda12.8" in simulated


def test_version_that_no_repository_has_is_an_error_before_anything_is_changed(stack):
    tools = Tools({}, {**WANTED, "libnccl2": "2.27.3-1"})
    packages = stack(tools)
    with pytest.raises(
        PackageError, match=r"no repository has libnccl2: wanted 2\.26.*available 2\.27.*nothing was changed"
    ):
        packages.rehearse(packages.plan())
    assert tools.changes() == []


def test_installation_ends_with_all_packages_held_in_their_versions(stack):
    tools = Tools({"libnccl2": "2.27.3-1", "nvidia-open-565": "565.57.01-1"}, WANTED)
    tools.held = {"libnccl2"}
    packages = stack(tools, "Package: nvidia-open-565\n")
    packages.install(packages.plan())
    assert (tools.there, tools.held) == (WANTED, set(WANTED))
    assert packages.plan().steps() == []


def test_installation_that_apt_calls_a_success_and_is_none_is_found_out(stack):
    packages = stack(Tools({}, WANTED, deaf=True))
    with pytest.raises(PackageError, match="after all steps there was still to do: install libnccl2"):
        packages.install(packages.plan())


@pytest.mark.parametrize(("version", "given"), [("", False), ("3.33-3", True)])
def test_held_versions_of_others_change_only_for_an_exact_version(version, given):
    tools = Tools({}, {"fio": version})
    AptPackages(tools, 1).install(plan(Declaration("host_base", {"fio": version}), (), {}))
    (argv,) = tools.changes()
    assert ("--allow-change-held-packages" in argv, "--allow-downgrades" in argv) == (given, given)
