"""Archives and hosts over SSH: each one once, all of them or none."""

import stat
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collecting.archive import Collected
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting import over_ssh
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.draft_error import DraftError
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.over_ssh import Ssh
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.sources import read_sources

from .archives import archive_of, ssh_to

HOSTS = [Collected(f"gpu-{number:02}", 1_790_000_000.0, {"uname": Output("Linux\n")}) for number in (1, 2, 3)]
FAILING = b"import sys; print('not here', file=sys.stderr); sys.exit(3)"


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory behind ssh, with an archive of each host."""
    place = tmp_path / "there"
    place.mkdir()
    for host in HOSTS:
        archive_of(host, place)
    ssh_to(place, monkeypatch)
    return place


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which the command is run."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def read(*words: str, program: bytes = b"", ssh: Ssh | None = None) -> list[str]:
    return [source.collected.host for source in read_sources(words, lambda: program, ssh or Ssh(), Path())]


def test_archives_and_hosts_are_read_and_what_ssh_brought_is_kept(there: Path, here: Path) -> None:
    assert read(str(there / "gpu-03.tar.gz"), "root@gpu-[01-02]") == ["gpu-03", "gpu-01", "gpu-02"]
    kept = sorted(path for path in here.iterdir())
    assert [path.name for path in kept] == [f"muster-gpu-0{number}-20260921T141320Z.tar.gz" for number in (1, 2)]
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert kept[0].read_bytes() == (there / "gpu-01.tar.gz").read_bytes()
    assert read(*map(str, kept)) == ["gpu-01", "gpu-02"]


def test_ssh_asks_for_no_password_and_gets_its_configuration(there: Path, here: Path) -> None:
    read("root@gpu-01", ssh=Ssh(Path("ssh_config")))
    asked = (there / "asked").read_text()
    assert asked.startswith("-F ssh_config -o BatchMode=yes ") and "-- root@gpu-01 exec sh -c " in asked


def test_program_runs_there_from_a_file_that_is_removed(
    there: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(there / "bin"))
    program = f"import sys; sys.stdout.buffer.write(open('{there}/gpu-02.tar.gz', 'rb').read())\n"
    program += f"open('{there}/ran', 'w').write(' '.join(sys.argv[1:]))\n"
    assert read("here", program=program.encode()) == ["gpu-02"]
    assert (there / "ran").read_text() == "collect --output -"
    assert [path.name for path in (there / "bin").iterdir()] == ["ssh"]


def test_who_is_not_root_becomes_it_where_the_operator_says_so(there: Path, here: Path) -> None:
    sudo = there / "bin/sudo"
    sudo.write_text(f'#!/bin/sh\nprintf "%s" "$1" >{there}/sudo\nshift\nexec "$@"\n')
    sudo.chmod(0o755)
    program = f"import sys; sys.stdout.buffer.write(open('{there}/gpu-02.tar.gz', 'rb').read())\n"
    assert read("here", program=program.encode(), ssh=Ssh(become=True)) == ["gpu-02"]
    assert (there / "sudo").read_text() == "-n"


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("root@gone", "root@gone: exit status 255; ssh said: ssh: connect to host gone port 22: Connection refused"),
        ("banner", "banner: an answer that begins with 'Welcome to gpu-01"),
        ("cut", "cut: "),
        ("silent", "silent: an answer that begins with '', expected an archive"),
        ("slow", "slow: no archive within 1 s"),
        ("here", "here: exit status 3; ssh said: not here"),
    ],
)
def test_host_that_gives_no_archive_is_named_and_nothing_is_kept(
    there: Path, here: Path, host: str, reason: str
) -> None:
    with pytest.raises(DraftError) as raised:
        read("gpu-01", host, program=FAILING, ssh=Ssh(None, 1 if host == "slow" else 30))
    assert str(raised.value).startswith(reason)
    assert list(here.iterdir()) == []


def test_every_host_that_fails_is_named(there: Path, here: Path) -> None:
    with pytest.raises(DraftError, match=r"gone: exit status 255.*; silent: an answer"):
        read("gone", "gpu-01", "silent")


def test_answer_without_end_is_stopped(there: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over_ssh, "MOST_BYTES", 100_000)
    with pytest.raises(DraftError, match="here: more than 100000 bytes, expected an archive"):
        read("here", program=b"import sys\nwhile True: sys.stdout.write('x' * 65536)")


def test_missing_ssh_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(here))
    with pytest.raises(DraftError, match="gpu-01: ssh: No such file"):
        read("gpu-01")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-oProxyCommand=touch_x"], "neither a file nor the name of a host"),
        (["root@-oProxyCommand=x"], "neither a file nor the name of a host"),
        (["gpu-01;reboot"], "neither a file nor the name of a host"),
        (["$(reboot)"], "neither a file nor the name of a host"),
        ([""], "neither a file nor the name of a host"),
        (["gone.tar.gz"], "'gone.tar.gz': no such file"),
        (["./gpu-01"], "'./gpu-01': no such file"),
        (["gpu-[01-"], "brackets in pairs"),
        (["gpu-01", "gpu-[01-02]"], "host gpu-01 is named twice"),
    ],
)
def test_word_that_names_no_host_reaches_nobody(there: Path, here: Path, words: list[str], reason: str) -> None:
    with pytest.raises(DraftError) as raised:
        read(*words)
    assert reason in str(raised.value)
    assert not (there / "asked").exists() and list(here.iterdir()) == []


def test_two_archives_of_one_host_are_refused(there: Path, here: Path) -> None:
    with pytest.raises(DraftError, match=r"host gpu-01 is named twice, as .*gpu-01.tar.gz and as root@gpu-01"):
        read(str(there / "gpu-01.tar.gz"), "root@gpu-01")
    assert list(here.iterdir()) == []


def test_archive_that_is_cut_off_is_named(there: Path, here: Path) -> None:
    path = there / "gpu-01.tar.gz"
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(DraftError, match=r"gpu-01.tar.gz"):
        read(str(path))
