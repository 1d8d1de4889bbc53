"""What rpm and dnf say, and the repositories and locks that are written for them."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host import dnf_packages
from ansible_collections.muster.cluster.plugins.module_utils.host.dnf_packages import (
    DnfPackages,
    lock_name,
    locks_text,
    parse_available,
    parse_removed,
    parse_status,
    repository_text,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.packages import (
    Declaration,
    Installed,
    PackageError,
    Plan,
)

from tests.contracts.table import refuse_unknown

STACK = Declaration("gpu_stack", {"nvidia-driver": "3:570.86.15-1.el9", "libnccl": "2.26.2-1+cuda12.8"}, stack=True)
NAMED = """# BEGIN Muster (gpu_stack)
libnccl-2.26.2-1+cuda12.8.*
nvidia-driver-3:570.86.15-1.el9.*
"""
OURS = locks_text("", STACK)
# As dnf 4.14 prints it, which is that of RHEL 9.
TABLE = """Last metadata expiration check: 0:02:36 ago on Sat Nov 28 18:00:28 2026.
Dependencies resolved.
================================================================================
 Package                  Arch       Version                  Repository   Size
================================================================================
Installing:
 nvidia-open              noarch     3:570.124.06-1.el9       muster      5.5 k
     replacing  nvidia-driver-latest.x86_64 3:565.57.01-1.el9
Upgrading:
 nvidia-driver            noarch     3:570.124.06-1.el9       muster      5.5 k
Removing dependent packages:
 old-thing                noarch     1.0-1                    @muster       0  
 a-package-with-a-very-long-name
                          noarch     1.0-1                    @muster       0  

Transaction Summary
================================================================================
Upgrade  1 Package
Remove   2 Packages

Operation aborted.
"""  # noqa: W291 -- as printed


def test_status_has_versions_without_the_epoch_0():
    text = "nvidia-driver\t3:570.86.15-1.el9\tx86_64\nlibnccl\t0:2.26.2-1+cuda12.8\tx86_64\n"
    found = parse_status(text)
    assert {name: package.version for name, package in found.items()} == STACK.packages
    assert not any(package.broken for package in found.values())


def test_package_there_twice_is_broken_and_a_kernel_is_not():
    text = (
        "nvidia-driver\t3:570.86.15-1.el9\tx86_64\nnvidia-driver\t3:570.124.06-1.el9\tx86_64\n"
        "kernel-core\t0:5.14.0-427.el9\tx86_64\nkernel-core\t0:5.14.0-503.el9\tx86_64\n"
        "gpg-pubkey\t0:1-1\t(none)\ngpg-pubkey\t0:2-1\t(none)\n"
        # Two architectures of one version are no accident.
        "libnvidia-ml\t3:570.86.15-1.el9\tx86_64\nlibnvidia-ml\t3:570.86.15-1.el9\ti686\n"
    )
    found = parse_status(text)
    assert [name for name, package in found.items() if package.broken] == ["nvidia-driver"]
    assert found["nvidia-driver"].state == "there in the versions 3:570.86.15-1.el9 and 3:570.124.06-1.el9"


@pytest.mark.parametrize("text", ["nvidia-driver\t3:570.86.15-1.el9", "nvidia-driver\t\tx86_64", "error: rpmdb open"])
def test_cut_off_status_is_an_error(text):
    with pytest.raises(PackageError, match="expected three fields"):
        parse_status(text)


def test_versions_of_a_repository_newest_first():
    text = "libnccl\t0:2.25.1-1+cuda12.8\nlibnccl\t0:2.26.2-1+cuda12.8\nlibnccl\t0:2.26.2-1+cuda12.8\nother line\n"
    assert parse_available(text) == {"libnccl": ["2.26.2-1+cuda12.8", "2.25.1-1+cuda12.8"]}


def test_what_dnf_would_remove_is_read_from_its_rehearsal():
    assert parse_removed(TABLE) == ["nvidia-driver-latest", "old-thing", "a-package-with-a-very-long-name"]
    assert parse_removed("Dependencies resolved.\nNothing to do.\nComplete!\n") == []


def test_locks_are_a_block_of_the_list_and_other_lines_stay():
    sites = "# Added lock on Mon Nov 2 09:00:00 2026\nopenssl-1:3.0.7-27.el9.*\n"
    text = locks_text(sites, STACK)
    assert text == sites + OURS
    assert locks_text(text, STACK) == text
    # What is no stack locks its own names alone.
    other = Declaration("gpu_stack", {"libnccl": "2.27.3-1+cuda12.9"})
    assert locks_text(text + "later-1-1.*\n", other) == (
        f"{sites}# BEGIN Muster (gpu_stack)\nlibnccl-2.27.3-1+cuda12.9.*\n# END Muster (gpu_stack)\nlater-1-1.*\n"
    )
    # Without exact versions the block goes, and another owner's stays.
    assert locks_text(text, Declaration("gpu_stack", {"libnccl": ""})) == sites
    assert locks_text(text, Declaration("rdma", {"mstflint": "4.34.0-1"})).startswith(text)


def test_list_of_locks_that_is_there_is_never_taken_away():
    none = Declaration("gpu_stack", {"libnccl": ""})
    assert locks_text("", none) == ""
    assert locks_text(OURS, none) == "\n" == locks_text("\n", none)


def test_package_that_is_to_go_stays_in_the_block_until_it_has_gone(monkeypatch):
    monkeypatch.setattr(dnf_packages, "text_of", lambda path: lists[path])
    lists = {dnf_packages.LOCKS: OURS}
    now = Declaration("gpu_stack", {"nvidia-driver": "3:570.86.15-1.el9"}, stack=True)
    manager = DnfPackages(Tools(), 10)
    text = manager.files(now, ["libnccl"])[dnf_packages.LOCKS]
    assert "libnccl-2.26.2" not in text and "\n# To be removed: libnccl\n# END" in text
    # The run that wrote this was killed: the next one still knows what to remove.
    lists[dnf_packages.LOCKS] = text
    assert "libnccl" in manager.declared_before(now)
    assert manager.files(now, ["libnccl"])[dnf_packages.LOCKS] == text
    assert "To be removed" not in manager.files(now)[dnf_packages.LOCKS]


def test_nothing_is_erased_for_a_package_of_any_version():
    tools = Tools()
    DnfPackages(tools, 1).install(Plan(install=(("fio", "", ""),)))
    assert [argv[-2:] for argv in tools.ran] == [["install", "fio"]]


def test_what_goes_with_a_declared_package_is_locked_and_nothing_else():
    lines = OURS.splitlines()
    assert OURS.startswith(NAMED) and lines[-1] == "# END Muster (gpu_stack)"
    assert "nvidia-modprobe*-3:570.86.15-1.el9.*" in lines and "libnccl*-2.26.2-1+cuda12.8.*" in lines
    # A lock keeps off every other version: of RHEL's own packages, and of what is not declared.
    patterns = [lock_name(line) for line in lines[3:-1]]
    others = ("libnvme", "libnvjitlink-12-8", "pcp-pmda-nvidia-gpu", "nvidia-gpu-firmware", "nvidia-container-toolkit")
    for name in (*others, "datacenter-gpu-manager-4-core", "libnvidia-container1"):
        assert not any(fnmatchcase(name, pattern) for pattern in patterns), name
    with_dcgm = Declaration("gpu_stack", {**STACK.packages, "datacenter-gpu-manager-4-cuda12": "1:4.2.3-1"}, stack=True)
    assert "datacenter-gpu-manager*-1:4.2.3-1.*" in locks_text("", with_dcgm).splitlines()


def test_what_a_declared_package_pulled_in_was_not_declared_and_never_goes(monkeypatch):
    monkeypatch.setattr(dnf_packages, "text_of", lambda path: OURS)
    assert DnfPackages(Tools(), 1).declared_before(STACK) == ["libnccl", "nvidia-driver"]


def test_block_without_its_end_is_an_error():
    with pytest.raises(PackageError, match=r"versionlock\.list: found '# BEGIN Muster .gpu_stack.' without"):
        locks_text(OURS.replace("# END", "#END"), STACK)


def test_repository_checks_signatures_and_hides_no_stream():
    text = repository_text("muster-gpu-stack-1", {"url": "https://m/rhel9", "suite": "/"}, "/etc/pki/key")
    assert text.startswith("[muster-gpu-stack-1]\n") and "baseurl=https://m/rhel9\n" in text
    assert "gpgcheck=1\ngpgkey=file:///etc/pki/key\nmodule_hotfixes=1\n" in text


@pytest.mark.parametrize("more", [{"suite": "noble"}, {"components": ["main"]}])
def test_repository_with_what_only_apt_has_is_refused(more):
    with pytest.raises(PackageError, match="https://m: suite and components are apt's"):
        repository_text("a", {"url": "https://m", **more}, "/key")


class Tools:
    """rpm and dnf of a host, by the verb."""

    def __init__(self, **answers):
        self.answers = answers
        self.ran = []

    def run(self, argv, timeout_seconds):
        refuse_unknown(argv)
        self.ran.append(list(argv))
        for word, answer in self.answers.items():
            if word in argv:
                return answer
        return Output()


PLAN = Plan(install=(("nvidia-driver", "", "3:570.86.15-1.el9"),), remove=("old-thing",))


def test_rehearsal_that_dnf_refuses_is_an_error_with_what_it_said():
    said = Output("", "No match for argument: nvidia-driver\nError: Unable to find a match: nvidia-driver\n", 1)
    tools = Tools(repoquery=Output("nvidia-driver\t3:570.86.15-1.el9\n"), install=said)
    with pytest.raises(PackageError, match=r"nothing was changed: No match for argument.*; Error: Unable to find"):
        DnfPackages(tools, 1).rehearse(STACK, PLAN)


def test_rehearsal_tells_what_goes_besides_and_agrees_to_nothing():
    tools = Tools(
        repoquery=Output("nvidia-driver\t3:570.86.15-1.el9\n"), install=Output(TABLE, "", 1), remove=Output(TABLE)
    )
    assert DnfPackages(tools, 1).rehearse(STACK, PLAN) == ["nvidia-driver-latest", "a-package-with-a-very-long-name"]
    changing = [argv for argv in tools.ran if "install" in argv or "remove" in argv]
    assert len(changing) == 2 and all("--assumeno" in argv and "--assumeyes" not in argv for argv in changing)


def test_version_that_no_repository_has_is_named_with_those_there_are():
    tools = Tools(repoquery=Output("nvidia-driver\t3:570.124.06-1.el9\n"))
    with pytest.raises(PackageError, match=r"wanted 3:570\.86\.15-1\.el9, available 3:570\.124\.06-1\.el9; nothing"):
        DnfPackages(tools, 1).rehearse(STACK, PLAN)


LOCKED = Output("openssl-1:3.0.7-27.el9.*\nnvidia-driver-3:570.86.15-1.el9.*\n")


def test_plugin_that_holds_the_versions_comes_before_them():
    tools = Tools(versionlock=Output("", "No such command: versionlock", 1))
    asked = tools.run

    def run(argv, timeout_seconds):
        answer = asked(argv, timeout_seconds)
        if "python3-dnf-plugin-versionlock" in argv:
            tools.answers["versionlock"] = LOCKED
        return answer

    tools.run = run
    DnfPackages(tools, 1).install(PLAN)
    verbs = [argv[argv.index("install") + 1 :] for argv in tools.ran if "install" in argv]
    assert verbs == [["python3-dnf-plugin-versionlock"], ["--allowerasing", "nvidia-driver-3:570.86.15-1.el9"]]
    tools = Tools(versionlock=LOCKED)
    DnfPackages(tools, 1).install(PLAN)
    assert not any("python3-dnf-plugin-versionlock" in argv for argv in tools.ran)


@pytest.mark.parametrize(
    "listed",
    [
        # enabled = 0 in versionlock.conf.
        Output("", "No such command: versionlock", 1),
        # Another locklist there.
        Output("openssl-1:3.0.7-27.el9.*\n"),
    ],
)
def test_versions_that_nothing_would_hold_are_not_installed(listed):
    tools = Tools(versionlock=listed)
    with pytest.raises(PackageError, match=r"versionlock\.list: dnf does not heed it, expected in .*versionlock\.conf"):
        DnfPackages(tools, 1).install(PLAN)
    assert not any("nvidia-driver-3:570.86.15-1.el9" in argv for argv in tools.ran)


def test_installation_that_fails_is_an_error_with_what_dnf_said():
    tools = Tools(versionlock=LOCKED, install=Output("", "Error: GPG check FAILED\n", 1))
    with pytest.raises(PackageError, match="dnf install failed: Error: GPG check FAILED"):
        DnfPackages(tools, 1).install(PLAN)


def test_name_that_another_package_or_a_file_stands_for():
    tools = Tools(
        **{"/usr/bin/curl": Output("curl-minimal-7.76.1-29.el9.x86_64\n"), "fio": Output("no package", "", 1)}
    )
    assert DnfPackages(tools, 1).provided(["/usr/bin/curl", "fio"]) == {"/usr/bin/curl"}


def test_rpm_that_cannot_be_asked_is_an_error():
    tools = Tools(**{"--all": Output(rc=None, error="rpm: not found")})
    with pytest.raises(PackageError, match="rpm: not found"):
        DnfPackages(tools, 1).status()
    assert DnfPackages(Tools(**{"--all": Output("a\t0:1-1\tnoarch\n")}), 1).status() == {
        "a": Installed("1-1", held=True)
    }
