"""What surrounds an installation: users, and daemons that must not run meanwhile."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.apt import AptError
from ansible_collections.muster.cluster.plugins.module_utils.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.slurm_packages import PREFERENCES, SOURCES
from ansible_collections.muster.cluster.plugins.modules.slurm_packages import hold, missing_users, wanted_of

KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEaA==\n-----END PGP PUBLIC KEY BLOCK-----\n"


class Host:
    def __init__(self, rc=0):
        self.rc = rc
        self.ran = []

    def run(self, argv, timeout_seconds):
        self.ran.append(" ".join(argv))
        return Output(rc=self.rc, stderr="Failed to mask")


def test_daemon_is_stopped_while_its_unit_still_says_how():
    """A masked unit is stopped with all of its processes, and slurmd's are the running jobs."""
    host = Host()
    hold(host, ["slurmd"], on=True)
    assert host.ran == ["systemctl stop slurmd", "systemctl mask --runtime slurmd"]
    hold(host, ["slurmd"], on=False)
    assert host.ran[2:] == ["systemctl unmask --runtime slurmd"]


def test_nothing_is_held_where_no_release_is_replaced():
    host = Host()
    hold(host, [], on=True)
    assert host.ran == []


def test_daemon_that_cannot_be_held_is_an_error():
    with pytest.raises(AptError, match="systemctl stop slurmd: Failed to mask"):
        hold(Host(rc=1), ["slurmd"], on=True)


def params(**more):
    return {"packages": ["munge"], "version": "22.05", "repository": None, "upgrade": False, **more}


def test_repository_is_written_with_its_release():
    repository = {"url": "https://mirror.example/slurm", "suite": None, "components": None, "signing_key": KEY}
    files = wanted_of(params(version="23.11", repository=repository)).files
    assert "Suites: /\n" in files[SOURCES] and "(slurm)" in files[SOURCES]
    assert "Pin: version 23.11.*" in files[PREFERENCES]
    assert wanted_of(params()).files == {}


@pytest.mark.parametrize("version", ["22.5", "", "26.05"])
def test_release_that_is_none_is_an_error(version):
    with pytest.raises(AptError, match="is declared, expected one of"):
        wanted_of(params(version=version))


def test_user_whose_number_somebody_has_is_an_error():
    assert missing_users({"root": 0, "muster-test-user": None}) == {"muster-test-user": None}
    with pytest.raises(AptError, match="which user root has; nothing was changed"):
        missing_users({"muster-test-user": 0})
