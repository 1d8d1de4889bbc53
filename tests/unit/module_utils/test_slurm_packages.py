"""Which packages are installed for a declared release, and what is refused before anything is."""

from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.packages import Installed, PackageError
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_packages import (
    PREFERENCES,
    SOURCES,
    Packages,
    Plan,
    Wanted,
    absent,
    check_served,
    check_step,
    fitting,
    gpu_plugin_fault,
    names_of,
    parse_policy,
    plan,
    preferences_text,
    release_of,
    said_release,
)

from tests.contracts.table import refuse_unknown

CONTROLLER = ("munge", "slurmctld", "slurm-client")
POLICY = """\
slurmctld:
  Installed: (none)
  Candidate: 22.05.8-4+deb12u3
  Version table:
     22.05.8-4+deb12u3 500
        500 http://deb.debian.org/debian bookworm/main amd64 Packages
slurm-smd-slurmctld:
  Installed: (none)
  Candidate: (none)
  Version table:
munge:
  Installed: 0.5.15-2+deb12u1
  Candidate: 0.5.15-2+deb12u1
"""


def wanted(version="22.05", upgrade=False, files=(), controller=""):
    return Wanted(CONTROLLER, version, dict(files), upgrade, controller)


def there(version="22.05.8-4+deb12u3", **more):
    return {"munge": Installed("0.5.15-2"), "slurmctld": Installed(version), "slurm-client": Installed(version), **more}


@pytest.mark.parametrize(
    ("version", "release"),
    [("22.05.8-4+deb12u3", "22.05"), ("1:23.11.10-1", "23.11"), ("24.05-1", "24.05"), ("25.11~rc1-1", "25.11")],
)
def test_release_of(version, release):
    assert release_of(version) == release


@pytest.mark.parametrize("version", ["", "0.5.15-2", "2205.8", "22.5.8"])
def test_version_that_is_not_slurms_is_an_error(version):
    with pytest.raises(PackageError, match="expected Slurm's"):
        release_of(version)


@pytest.mark.parametrize(
    ("old", "new"), [("22.05", "22.05"), ("22.05", "23.02"), ("22.05", "23.11"), ("23.02", "24.11"), ("24.05", "25.11")]
)
def test_step_that_keeps_the_state(old, new):
    check_step(old, new)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("23.02", "22.05", "an older one cannot read its state"),
        ("22.05", "24.05", "upgrade to 23.02 first"),
        ("22.05", "24.11", "upgrade to 23.02 first"),
        ("22.05", "25.11", "upgrade to 24.05 first"),
        ("22.05", "30.05", "Slurm 30.05, expected one of"),
    ],
)
def test_step_that_would_lose_the_state_is_refused(old, new, said):
    with pytest.raises(PackageError, match=said):
        check_step(old, new)


def test_host_with_all_of_it_needs_nothing():
    assert plan(wanted(), there(), {}) == Plan()


def test_what_is_missing_or_half_installed_is_installed():
    status = there(munge=Installed("0.5.15-2", "half-configured"), slurmctld=Installed("22.05.8-4", "config-files"))
    assert plan(wanted(), status, {}).install == (("munge", "0.5.15-2"), ("slurmctld", ""))


def test_other_release_is_left_to_the_upgrade():
    with pytest.raises(
        PackageError, match=r"slurmctld 22.05.8.* installed, declared is Slurm 23.02: playbooks/slurm_upgrade"
    ):
        plan(wanted("23.02"), there(), {})
    assert plan(wanted("23.02", upgrade=True), there(), {}).names == ["slurmctld", "slurm-client"]


@pytest.mark.parametrize(("controller", "may"), [("", False), ("23.02", True), ("24.05", False)])
def test_host_may_keep_its_release_where_the_controllers_serve_it(controller, may):
    with pytest.raises(PackageError, match="playbooks/slurm_upgrade") as caught:
        plan(wanted("23.02", controller=controller), there(), {})
    assert ('a host that keeps its release declares slurm_version: "22.05"' in str(caught.value)) == may


@pytest.mark.parametrize(
    ("said", "release"),
    [
        ("slurm-wlm 22.05.8", "22.05"),
        ("slurm 24.11.5\n", "24.11"),
        ("slurm 25.11.0-0rc1", "25.11"),
        ("slurm 26.05", "26.05"),
    ],
)
def test_release_that_slurmctld_says(said, release):
    assert said_release(said) == release


@pytest.mark.parametrize(
    "said",
    [
        "",
        "slurm-wlm",
        "slurm 2411.5",
        "slurm 24.115",
        "24.11.5",
        "slurm 24.11.5\nslurm 23.11.4",
        "no answer: slurm 24.11.5",
    ],
)
def test_answer_without_a_release_is_an_error(said):
    with pytest.raises(PackageError, match=r"slurmctld -V on the primary controller: found .*, expected slurm 24.11.5"):
        said_release(said)


def test_release_that_the_controller_does_not_serve_is_refused():
    check_served("24.11", "23.02")
    expected = r"controller has Slurm 23.11: Slurm 24.11 is newer .*expected 22.05 to 23.11; nothing was changed"
    with pytest.raises(PackageError, match=f"{expected}.*playbooks/slurm_upgrade.yml"):
        check_served("23.11", "24.11")
    with pytest.raises(PackageError, match=r"Slurm 30.05 is unknown here"):
        check_served("30.05", "25.11")


def test_upgrade_never_goes_back():
    with pytest.raises(PackageError, match="cannot read its state"):
        plan(wanted("22.05", upgrade=True), there("23.02.1-1"), {})


def test_apts_files_are_written_where_they_differ():
    files = {SOURCES: "a", PREFERENCES: "b"}
    assert plan(wanted(files=files), there(), {SOURCES: "a", PREFERENCES: "old"}).files == (PREFERENCES,)


def test_schedmds_packages_stand_for_debians_where_those_are_not():
    assert names_of(CONTROLLER, {"munge": 1, "slurm-smd-slurmctld": 1, "slurm-client": 1, "slurm-smd-client": 1}) == (
        "munge",
        "slurm-smd-slurmctld",
        "slurm-client",
    )
    status = {
        "munge": Installed("1"),
        "slurm-smd-slurmctld": Installed("23.11.4-1"),
        "slurm-smd-client": Installed("23.11.4-1"),
    }
    assert plan(wanted("23.11"), status, {}) == Plan()


def test_parse_policy():
    assert parse_policy(POLICY) == {"slurmctld": "22.05.8-4+deb12u3", "munge": "0.5.15-2+deb12u1"}


@pytest.mark.parametrize("text", ["", "N: Unable to locate package slurmctld\n", "slurmctld:\n"])
def test_policy_without_a_candidate_has_none(text):
    assert parse_policy(text) == {}


def test_absent_names_package_and_what_there_is():
    candidates = {"munge": "0.5.15-2", "slurmctld": "22.05.8-4"}
    assert absent(CONTROLLER, "22.05", candidates) == ["slurm-client"]
    assert absent(("slurmctld",), "23.11", candidates) == ["slurmctld (there is 22.05.8-4)"]
    # munge has releases of its own.
    assert absent(("munge",), "23.11", candidates) == []


def test_package_of_the_declared_release_is_taken_whatever_it_is_called():
    candidates = {"slurmctld": "22.05.8-4", "slurm-smd-slurmctld": "23.11.10-1", "slurm-wlm-jwt-plugin": "22.05.8-4"}
    candidates |= {"slurm-smd": "23.11.10-1"}
    there = fitting("23.11", candidates)
    assert absent(("slurmctld", "slurm-wlm-jwt-plugin"), "23.11", candidates) == []
    assert names_of(("slurmctld", "slurm-wlm-jwt-plugin"), there) == ("slurm-smd-slurmctld", "slurm-smd")
    assert names_of(("slurmctld",), fitting("22.05", candidates)) == ("slurmctld",)


def test_preferences_hold_the_release_and_never_go_back():
    text = preferences_text("23.11")
    assert "Pin: version 23.11.*" in text and "Pin-Priority: 990" in text


class Host:
    """Answers apt; keeps what was run."""

    def __init__(self, policy):
        self.policy = policy
        self.ran = []

    def run(self, argv, timeout_seconds):
        refuse_unknown(argv)
        self.ran.append(argv)
        return Output(self.policy if "policy" in argv else "")

    def read(self, path):
        return Output(rc=None, error="no such file")

    def changed(self):
        return [argv for argv in self.ran if "install" in argv and "--simulate" not in argv]


def test_release_that_no_repository_has_is_an_error_before_anything_is_changed():
    host = Host(POLICY)
    packages = Packages(host, wanted("23.11"), 10, 86400)
    with pytest.raises(
        PackageError, match=r"no repository has for Slurm 23.11: slurmctld \(there is .*slurm-client; nothing"
    ):
        packages.rehearse(Plan((("slurmctld", ""), ("slurm-client", ""))), simulate=False)
    assert host.changed() == []


def test_rehearsal_in_check_mode_installs_nothing():
    host = Host(POLICY)
    packages = Packages(host, wanted(), 10, float("inf"))
    assert packages.rehearse(Plan((("slurmctld", ""),)), simulate=True) == (False, ("slurmctld",))
    assert host.changed() == [] and any("--simulate" in argv for argv in host.ran)


def test_outdated_lists_are_fetched_and_the_installation_is_tried_again():
    class Outdated(Host):
        def run(self, argv, timeout_seconds):
            super().run(argv, timeout_seconds)
            failed = "install" in argv and not any("update" in each for each in self.ran)
            return Output(stderr="E: 404  Not Found", rc=100) if failed else Output()

    host = Outdated("")
    Packages(host, wanted(), 10, 86400).install(["slurmctld"], fetch=False)
    assert len(host.changed()) == 2


WITHOUT = b"\0We were configured to autodetect nvml functionality, but we weren't able to find that lib\0"
WITH = b"\0We were configured with nvml functionality, but that lib wasn't found on the system.\0"


@pytest.mark.parametrize(
    ("kind", "files", "fault"),
    [
        ("nvml", {"lib/x86_64-linux-gnu/slurm-wlm/gpu_nvml.so": b"", "lib/x86_64-linux-gnu/slurm-wlm/x": b""}, ""),
        (
            "nvml",
            {"lib/aarch64-linux-gnu/slurm/gpu_nvml.so": b"", "lib/aarch64-linux-gnu/slurm/libslurmfull.so": WITH},
            "",
        ),
        (
            "nvidia",
            {"lib/x86_64-linux-gnu/slurm/gpu_nvidia.so": b"", "lib/x86_64-linux-gnu/slurm/libslurmfull.so": WITHOUT},
            "",
        ),
        (
            "nvml",
            {"lib/x86_64-linux-gnu/slurm/gpu_nvml.so": b"", "lib/x86_64-linux-gnu/slurm/libslurmfull.so": WITHOUT},
            "was built without NVML",
        ),
        ("nvml", {"lib/x86_64-linux-gnu/slurm-wlm/gpu_generic.so": b""}, "has no plugin gpu_nvml.so"),
        ("nrt", {}, "has no plugin gpu_nrt.so"),
    ],
)
def test_slurm_finds_gpus_only_by_what_it_was_built_with(
    tmp_path: Path, kind: str, files: dict[str, bytes], fault: str
) -> None:
    for name, content in files.items():
        path = tmp_path / "usr" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    found = gpu_plugin_fault(kind, tmp_path)
    assert (found == "") == (fault == "") and fault in found, found
