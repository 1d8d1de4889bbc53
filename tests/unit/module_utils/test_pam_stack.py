"""Which files bring a PAM module into a service's sessions, and how it is taken out."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.pam_stack import (
    PamError,
    Profile,
    disable,
    files_with,
)

from tests.contracts.table import refuse_unknown

MODULE = "pam_systemd.so"
# As Debian 12 and Ubuntu 24.04 ship it, less comments.
SSHD = """@include common-auth
account    required     pam_nologin.so
@include common-account
session [success=ok ignore=ignore module_unknown=ignore default=bad]        pam_selinux.so close
session    required     pam_loginuid.so
@include common-session
session    optional     pam_motd.so noupdate
session    required     pam_env.so user_readenv=1 envfile=/etc/default/locale
@include common-password
"""
SESSION = """session\t[default=1]\t\t\tpam_permit.so
session\trequired\t\t\tpam_permit.so
session\trequired\tpam_unix.so
session\toptional\tpam_systemd.so
# end of pam-auth-update config
"""
# Of Ubuntu 22.04.
SEEN = "unix\nsystemd\nmkhomedir\n"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Return a directory as /etc/pam.d of a fresh server."""
    place = tmp_path / "etc" / "pam.d"
    place.mkdir(parents=True)
    (place / "sshd").write_text(SSHD)
    (place / "common-session").write_text(SESSION)
    (place / "common-account").write_text("account required pam_permit.so\n")
    (place / "login").write_text(f"session optional {MODULE}\n")
    return place


class Updating:
    """A host whose pam-auth-update does what it is told, unless the file was edited by hand."""

    def __init__(self, rules: Path, rc: int = 0, edited: bool = False) -> None:
        self.rules, self.rc, self.edited = rules, rc, edited
        self.ran: list[str] = []

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        refuse_unknown(argv)
        self.ran.append(" ".join(argv))
        if not self.rc and not self.edited:
            (self.rules / "common-session").write_text(SESSION.replace("session\toptional\tpam_systemd.so\n", ""))
        return Output(rc=self.rc, stderr="no such profile" if self.rc else "")

    def read(self, path: str) -> Output:
        raise NotImplementedError

    def paths(self, *patterns: str) -> list[str]:
        raise NotImplementedError


def found(rules: Path) -> list[str]:
    return [Path(path).name for path in files_with(MODULE, "sshd", directory=str(rules))]


def test_module_of_an_included_file_is_found(rules: Path) -> None:
    assert found(rules) == ["common-session"]


@pytest.mark.parametrize(
    "line",
    [
        "session optional pam_systemd.so",
        "-session\toptional\tpam_systemd.so class=user",
        "session [success=ok default=ignore] /lib/security/pam_systemd.so",
        "session \\\n  optional pam_systemd.so",
        "session include more",
        "session substack more",
        "@include more",
    ],
)
def test_every_way_to_name_a_module_counts(rules: Path, line: str) -> None:
    (rules / "common-session").write_text("")
    (rules / "more").write_text("@include sshd\nsession required pam_systemd.so\n")
    (rules / "sshd").write_text(f"{SSHD}{line}\n")
    assert found(rules) == (["more"] if "more" in line else ["sshd"])


@pytest.mark.parametrize(
    "line",
    [
        "#session optional pam_systemd.so",
        "account optional pam_systemd.so",
        "session optional pam_unix.so # not pam_systemd.so",
        "session optional pam_systemd_home.so",
        "account include more",
        "session",
        "@include",
        "@include missing",
    ],
)
def test_what_names_it_otherwise_does_not(rules: Path, line: str) -> None:
    (rules / "common-session").write_text("")
    (rules / "more").write_text("session required pam_systemd.so\n")
    (rules / "sshd").write_text(f"{SSHD}{line}\n")
    assert found(rules) == []


def call(host: Updating, check: bool = False) -> bool:
    return disable(host, Profile("systemd", MODULE, "sshd"), check, str(host.rules.parent.parent))


def test_it_is_disabled_once(rules: Path) -> None:
    host = Updating(rules)
    assert call(host, check=True) and host.ran == []
    assert call(host) and not call(host)
    assert host.ran == ["env DEBIAN_FRONTEND=noninteractive pam-auth-update --disable systemd"]


def test_a_file_edited_by_hand_is_an_error_that_names_it(rules: Path) -> None:
    with pytest.raises(PamError, match=r"common-session still brings pam_systemd\.so .* edited by hand; remove"):
        call(Updating(rules, edited=True))


class Jammy(Updating):
    """A host with pam-auth-update 1.4.0, which ignores --disable and forgets what it removes; it may be killed then."""

    def __init__(self, rules: Path, killed: bool = False) -> None:
        super().__init__(rules)
        root = rules.parent.parent
        self.killed, self.seen, profiles = killed, root / "var/lib/pam/seen", root / "usr/share/pam-configs"
        self.seen.parent.mkdir(parents=True)
        self.seen.write_text(SEEN)
        profiles.mkdir(parents=True)
        (profiles / "systemd").touch()

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        if "--remove" not in argv:
            self.ran.append(" ".join(argv))
            return Output()
        self.seen.write_text(SEEN.replace("systemd\n", ""))
        output = super().run(argv, timeout_seconds)
        if self.killed:
            raise KeyboardInterrupt
        return output


def test_a_tool_without_disable_removes_the_profile_which_is_kept_as_seen(rules: Path) -> None:
    host = Jammy(rules)
    assert call(host, check=True) and host.ran == [] and host.seen.read_text() == SEEN
    assert call(host) and found(rules) == []
    tool = "env DEBIAN_FRONTEND=noninteractive pam-auth-update"
    assert host.ran == [f"{tool} --disable systemd", f"{tool} --remove systemd"]
    assert host.seen.read_text() == "unix\nmkhomedir\nsystemd\n"
    written = host.seen.stat()
    assert not call(host, check=True) and not call(host)
    assert len(host.ran) == 2 and host.seen.stat() == written


def test_a_profile_is_kept_as_seen_after_a_run_that_was_killed(rules: Path) -> None:
    host = Jammy(rules, killed=True)
    with pytest.raises(KeyboardInterrupt):
        call(host)
    forgotten = host.seen.read_text()
    assert "systemd" not in forgotten
    assert call(host, check=True) and host.seen.read_text() == forgotten
    assert call(host) and not call(host)
    assert host.seen.read_text() == "unix\nmkhomedir\nsystemd\n"


@pytest.mark.parametrize("missing", ["var/lib/pam/seen", "usr/share/pam-configs/systemd"])
def test_without_the_profile_or_the_list_of_seen_ones_nothing_is_kept(rules: Path, missing: str) -> None:
    (rules / "common-session").write_text("")
    host = Jammy(rules)
    host.seen.write_text("unix\n")
    (rules.parent.parent / missing).unlink()
    assert not call(host) and host.ran == []
    assert not host.seen.exists() or host.seen.read_text() == "unix\n"


def test_a_tool_that_fails_is_an_error(rules: Path) -> None:
    with pytest.raises(PamError, match="pam-auth-update --disable systemd: no such profile"):
        call(Updating(rules, rc=1))


@pytest.mark.parametrize("check", [False, True])
def test_a_site_s_own_line_is_left_to_the_site(rules: Path, check: bool) -> None:
    (rules / "sshd").write_text(f"{SSHD}session optional pam_systemd.so\n")
    host = Updating(rules)
    with pytest.raises(PamError, match=r"sshd brings pam_systemd\.so into the sessions of sshd: remove it from there"):
        call(host, check)
    assert host.ran == []


class Debian(Updating):
    """The real pam-auth-update, on a root of its own."""

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        root = self.rules.parent.parent
        environment = {**os.environ, "DEBCONF_DB_OVERRIDE": f"File{{{root}/debconf.dat}}"}
        done = subprocess.run(
            [*argv[:3], "--root", str(root), *argv[3:]],
            capture_output=True,
            text=True,
            env=environment,
            timeout=timeout_seconds,
            check=False,
        )
        return Output(done.stdout, done.stderr, done.returncode)


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/usr/share/pam-configs/systemd").exists(),
    reason="needs root, pam-auth-update and libpam-systemd",
)
@pytest.mark.parametrize("edited", [False, True])
def test_debians_own_tool_takes_the_module_out_and_leaves_it_out(tmp_path: Path, edited: bool) -> None:
    for place in ("etc/pam.d", "var/lib/pam", "usr/share/pam-configs"):
        shutil.copytree(f"/{place}", tmp_path / place)
    shutil.copy("/var/cache/debconf/config.dat", tmp_path / "debconf.dat")
    host = Debian(tmp_path / "etc" / "pam.d")
    (host.rules / "sshd").write_text(SSHD)
    session = host.rules / "common-session"
    if MODULE not in session.read_text():
        pytest.skip("pam_systemd is disabled on this machine")
    if edited:
        session.write_text(session.read_text().replace(MODULE, f"pam_keyinit.so\nsession optional {MODULE}"))
        with pytest.raises(PamError, match="edited by hand"):
            call(host)
        return
    seen = tmp_path / "var/lib/pam/seen"
    before = seen.read_text()
    assert call(host) and not call(host)
    assert seen.read_text() == before
    # As a package does that is upgraded.
    host.run(["env", "DEBIAN_FRONTEND=noninteractive", "pam-auth-update", "--package"], 60)
    assert found(host.rules) == []
