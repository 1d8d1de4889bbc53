"""What dpkg and apt say, and what is written for them."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.apt import (
    Apt,
    parse_provided,
    parse_removed,
    parse_status,
    sources_text,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.packages import Installed, PackageError

from tests.contracts.table import refuse_unknown

KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEaA==\n=AbCd\n-----END PGP PUBLIC KEY BLOCK-----\n"


def test_status_is_read_and_a_broken_architecture_counts():
    text = (
        "libnccl2:amd64\t2.26.2-1+cuda12.8\thold\tinstalled\tok\n"
        "libc6:amd64\t2.36\tinstall\tinstalled\tok\nlibc6:i386\t2.36\tinstall\thalf-installed\treinstreq\n"
    )
    found = parse_status(text)
    assert found["libnccl2"] == Installed("2.26.2-1+cuda12.8", "installed", held=True)
    assert found["libc6"].broken and found["libc6"].reinstall


def test_cut_off_status_is_an_error():
    with pytest.raises(PackageError, match="expected five fields"):
        parse_status("libnccl2:amd64\t2.26.2-1+cuda12.8\tho")


def test_sources_carry_the_key_and_a_lone_full_stop_for_its_empty_line():
    text = sources_text([{"url": "http://m", "suite": "/", "components": [], "signing_key": KEY}])
    assert "Suites: /\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEaA==" in text
    assert "Components" not in text
    with pytest.raises(PackageError, match="no ASCII-armored public key"):
        sources_text([{"url": "http://m", "suite": "/", "signing_key": "https://m/key.gpg"}])


def test_host_without_dpkg_is_told_what_is_supported():
    class Other:
        def run(self, argv, timeout_seconds):
            refuse_unknown(argv)
            return Output(rc=None, error=f"{argv[0]}: not found")

    with pytest.raises(PackageError, match="Debian and Ubuntu only"):
        Apt(Other(), 1).status()


def test_what_apt_would_remove_besides_is_read_from_its_rehearsal():
    text = "Reading package lists...\nRemv nvidia-dkms-565 [565.57.01-1] [libfoo ]\nPurg old:amd64 [1]\nInst x (2 r)\n"
    assert parse_removed(text) == ["nvidia-dkms-565", "old"]
    assert parse_removed("Inst Remv-x (1)\nConf x\n") == []


def test_names_for_which_an_installed_package_stands():
    text = (
        "installed libmpi.so.40, openmpi-bin (= 4.1.6-7)\ninstalled \ndeinstall gone\nconfig-files old\n"
        "installed awk:any\n"
    )
    assert parse_provided(text) == {"libmpi.so.40", "openmpi-bin", "awk"}
    assert parse_provided("") == set()
