"""What surrounds an installation: users, and daemons that must not run meanwhile."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.packages import PackageError
from ansible_collections.muster.cluster.plugins.module_utils.host.systemd import SystemdError
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_packages import PREFERENCES, SOURCES
from ansible_collections.muster.cluster.plugins.modules.slurm_packages import hold, missing_users, unhold, wanted_of

from tests.fake_host import FakeHost

KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEaA==\n-----END PGP PUBLIC KEY BLOCK-----\n"


def test_daemon_is_stopped_while_its_unit_still_says_how():
    """A masked unit is stopped with all of its processes, and slurmd's are the running jobs."""
    host = FakeHost(answer=Output(rc=0))
    hold(host, ["slurmd"], stop=True)
    assert host.commands == ["systemctl stop slurmd", "systemctl mask --runtime slurmd"]
    unhold(host, ["slurmd"])
    assert host.commands[2:] == ["systemctl unmask --runtime slurmd"]


def test_new_daemon_is_kept_from_starting_without_its_configuration():
    host = FakeHost(answer=Output(rc=0))
    hold(host, ["slurmd"], stop=False)
    assert host.commands == ["systemctl mask --runtime slurmd"]


def test_nothing_is_held_on_a_host_without_daemons():
    host = FakeHost(answer=Output(rc=0))
    hold(host, [], stop=True)
    unhold(host, [])
    assert host.commands == []


def test_daemon_that_cannot_be_held_is_an_error():
    with pytest.raises(SystemdError, match="systemctl stop slurmd: Failed to mask"):
        hold(FakeHost(answer=Output(rc=1, stderr="Failed to mask")), ["slurmd"], stop=True)


def params(**more):
    return {
        "packages": ["munge"],
        "version": "22.05",
        "repository": None,
        "upgrade": False,
        "controller_says": None,
        **more,
    }


def test_repository_is_written_with_its_release():
    repository = {"url": "https://mirror.example/slurm", "suite": None, "components": None, "signing_key": KEY}
    files = wanted_of(params(version="23.11", repository=repository)).files
    assert "Suites: /\n" in files[SOURCES] and "(slurm)" in files[SOURCES]
    assert "Pin: version 23.11.*" in files[PREFERENCES]
    assert wanted_of(params()).files == {}


@pytest.mark.parametrize("version", ["22.5", "", "26.05"])
def test_release_that_is_none_is_an_error(version):
    with pytest.raises(PackageError, match="is declared, expected one of"):
        wanted_of(params(version=version))


def test_release_is_refused_that_the_primary_controller_does_not_serve():
    assert wanted_of(params(version="23.02", controller_says="slurm 24.11.5")).controller == "24.11"
    assert wanted_of(params(version="23.02")).controller == ""
    with pytest.raises(PackageError, match=r"expected 22.05 to 23.11; nothing was changed"):
        wanted_of(params(version="24.11", controller_says="slurm-wlm 23.11.4"))


@pytest.mark.parametrize("said", ["", "no answer: Connection refused"])
def test_controller_that_does_not_say_its_release_is_an_error(said):
    with pytest.raises(PackageError, match="slurmctld -V on the primary controller: found"):
        wanted_of(params(controller_says=said))


def test_user_whose_number_somebody_has_is_an_error():
    assert missing_users({"root": 0, "muster-test-user": None}) == {"muster-test-user": None}
    with pytest.raises(PackageError, match="which user root has; nothing was changed"):
        missing_users({"muster-test-user": 0})
