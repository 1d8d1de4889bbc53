"""The system of a host is one that the roles know, or named."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.readiness import system

from tests.fake_host import FakeHost

EXPECTED = "expected one of Debian 12, Debian 13, Ubuntu 22.04, Ubuntu 24.04"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('ID=debian\nVERSION_ID="12"\n', ""),
        ("NAME='Debian GNU/Linux'\nID=debian\nVERSION_ID=13\n", ""),
        ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\n', ""),
        ('ID=ubuntu\nVERSION_ID="24.04"\n', ""),
        ('NAME="Rocky Linux"\nID="rocky"\nVERSION_ID="9.4"\n', "Rocky Linux 9.4"),
        ('ID=ubuntu\nVERSION_ID="20.04"\n', "ubuntu 20.04"),
        ('NAME="Debian GNU/Linux"\nID=debian\n', "Debian GNU/Linux without a version"),
        ("#ID=debian\nVERSION_ID=12\n", "a system without a name 12"),
        ('ID="debian\nVERSION_ID=12\n', "a system without a name 12"),
        ("", "a system without a name without a version"),
    ],
)
def test_release_of_a_system(text: str, found: str) -> None:
    wrong = system.lacks(FakeHost({"/etc/os-release": Output(text)}))
    assert wrong == ([f"system: found {found}, {EXPECTED}"] if found else [])


def test_usr_lib_is_asked_where_etc_has_no_such_file() -> None:
    debian = Output("ID=debian\nVERSION_ID=12\n")
    assert system.lacks(FakeHost({"/usr/lib/os-release": debian})) == []
    other = Output("ID=arch\nVERSION_ID=1\n")
    assert system.lacks(FakeHost({"/usr/lib/os-release": debian, "/etc/os-release": other}))


def test_file_that_cannot_be_read_is_no_pass() -> None:
    with pytest.raises(Unreadable, match="Permission denied"):
        system.lacks(FakeHost({"/etc/os-release": Output(rc=None, error="/etc/os-release: Permission denied")}))
