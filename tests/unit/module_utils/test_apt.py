"""What has to be done to bring a host to exact versions, and what is refused before anything is."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.apt import (
    Apt,
    AptError,
    Installed,
    parse_available,
    parse_removed,
    parse_status,
    sources_text,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.exact_packages import (
    PREFERENCES,
    SOURCES,
    ExactPackages,
    check_declaration,
    declared_before,
    missing,
    plan,
    preferences_text,
    upstream,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output

from tests.contracts.table import refuse_unknown

WANTED = {"nvidia-open-570": "570.86.15-0ubuntu1", "libnccl2": "2.26.2-1+cuda12.8"}
SOUND = {name: Installed(version, held=True) for name, version in WANTED.items()}
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEaA==\n=AbCd\n-----END PGP PUBLIC KEY BLOCK-----\n"


@pytest.mark.parametrize(
    ("version", "expected"),
    [("570.86.15-0ubuntu1", "570.86.15"), ("1:4.2.3-1", "4.2.3"), ("2.26.2-1+cuda12.8", "2.26.2"), ("580", "580")],
)
def test_upstream(version, expected):
    assert upstream(version) == expected


def test_host_as_declared_needs_nothing():
    planned = plan(WANTED, WANTED, SOUND)
    assert planned.steps() == [] and not planned.disruptive


def test_hold_alone_disturbs_nobody():
    planned = plan(WANTED, (), {**SOUND, "libnccl2": Installed("2.26.2-1+cuda12.8")})
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
    planned = plan(WANTED, (), status)
    assert step in planned.steps() and planned.disruptive


@pytest.mark.parametrize("state", ["half-configured", "half-installed", "unpacked", "triggers-pending"])
def test_package_that_stopped_half_way_is_repaired_whoever_declared_it(state):
    planned = plan(WANTED, (), {**SOUND, "nvidia-dkms-570-open": Installed("570.86.15-0ubuntu1", state)})
    assert planned.steps() == [f"repair nvidia-dkms-570-open, which is {state}"] and planned.disruptive


def test_package_declared_earlier_is_removed_and_a_strangers_is_not():
    status = {**SOUND, "nvidia-open-565": Installed("565.57.01-0ubuntu1", held=True), "vim": Installed("9")}
    assert plan(WANTED, ["nvidia-open-565", "gone"], status).steps() == ["remove nvidia-open-565"]


def test_status_is_read_and_a_broken_architecture_counts():
    text = (
        "libnccl2:amd64\t2.26.2-1+cuda12.8\thold\tinstalled\tok\n"
        "libc6:amd64\t2.36\tinstall\tinstalled\tok\nlibc6:i386\t2.36\tinstall\thalf-installed\treinstreq\n"
    )
    found = parse_status(text)
    assert found["libnccl2"] == Installed("2.26.2-1+cuda12.8", "installed", held=True)
    assert found["libc6"].broken and found["libc6"].reinstall


def test_cut_off_status_is_an_error():
    with pytest.raises(AptError, match="expected five fields"):
        parse_status("libnccl2:amd64\t2.26.2-1+cuda12.8\tho")


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
        ({**WANTED, "nvidia-imex-570": "570.124.06-1"}, "the driver as 570.86.15"),
        ({"libnccl2": "2.26.2-1+cuda12.8"}, "none of the packages libnccl2 is the driver"),
        # A fabric manager alone is no driver.
        ({"nvidia-fabricmanager-570": "570.86.15-1"}, "is the driver 570.86.15"),
        ({"nvidia-imex-570": "570.86.15-1"}, "is the driver 570.86.15"),
        ({}, r"none of the packages \(none\)"),
        ({**WANTED, "libnccl2": "latest"}, "exact version"),
        ({**WANTED, "-o=x": "1"}, "expected a Debian package's name"),
        ({**WANTED, "libnccl2": "2.26.*"}, "exact version"),
    ],
)
def test_declaration_that_cannot_work_is_refused(packages, said):
    with pytest.raises(AptError, match=said):
        check_declaration("570.86.15", packages)


def test_declaration_with_a_fabric_manager_of_the_same_version_is_taken():
    check_declaration("570.86.15", {**WANTED, "nvidia-fabricmanager-570": "570.86.15-1"})


def test_preferences_say_which_packages_were_declared():
    text = preferences_text("570.86.15", WANTED)
    assert declared_before(text) == sorted(WANTED)
    assert "Pin: version 570.86.15-*" in text
    assert declared_before("") == []


def test_sources_carry_the_key_and_a_lone_full_stop_for_its_empty_line():
    text = sources_text([{"url": "http://m", "suite": "/", "components": [], "signing_key": KEY}])
    assert "Suites: /\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEaA==" in text
    assert "Components" not in text
    with pytest.raises(AptError, match="no ASCII-armored public key"):
        sources_text([{"url": "http://m", "suite": "/", "signing_key": "https://m/key.gpg"}])


def test_host_without_dpkg_is_told_what_is_supported():
    class Other:
        def run(self, argv, timeout_seconds):
            refuse_unknown(argv)
            return Output(rc=None, error=f"{argv[0]}: not found")

    with pytest.raises(AptError, match="Debian and Ubuntu only"):
        Apt(Other(), 1).status()


def test_what_apt_would_remove_besides_is_read_from_its_rehearsal():
    text = "Reading package lists...\nRemv nvidia-dkms-565 [565.57.01-1] [libfoo ]\nPurg old:amd64 [1]\nInst x (2 r)\n"
    assert parse_removed(text) == ["nvidia-dkms-565", "old"]
    assert parse_removed("Inst Remv-x (1)\nConf x\n") == []


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


def stack(tools):
    files = {SOURCES: "Types: deb\n", PREFERENCES: preferences_text("570.86.15", WANTED)}
    return ExactPackages(Apt(tools, 1), "570.86.15", WANTED, files)


def test_rehearsal_tells_what_apt_removes_besides_and_changes_nothing():
    tools = Tools(
        {"nvidia-open-565": "565.57.01-1"}, WANTED, simulated="Remv nvidia-open-565 [1]\nRemv nvidia-dkms [1]\n"
    )
    packages = stack(tools)
    planned = packages.plan("Package: nvidia-open-565\n")
    assert packages.rehearse(planned) == ["nvidia-dkms"]
    assert tools.changes() == [] and tools.held == set()
    (simulated,) = [argv for argv in tools.ran if "--simulate" in argv]
    assert "nvidia-open-565-" in simulated and "libnccl2=2.26.2-1+cuda12.8" in simulated


def test_version_that_no_repository_has_is_an_error_before_anything_is_changed():
    tools = Tools({}, {**WANTED, "libnccl2": "2.27.3-1"})
    packages = stack(tools)
    with pytest.raises(
        AptError, match=r"no repository has libnccl2: wanted 2\.26.*available 2\.27.*nothing was changed"
    ):
        packages.rehearse(packages.plan(""))
    assert tools.changes() == []


def test_installation_ends_with_all_packages_held_in_their_versions():
    tools = Tools({"libnccl2": "2.27.3-1", "nvidia-open-565": "565.57.01-1"}, WANTED)
    tools.held = {"libnccl2"}
    packages = stack(tools)
    packages.install(packages.plan("Package: nvidia-open-565\n"))
    assert (tools.there, tools.held) == (WANTED, set(WANTED))
    assert packages.plan(packages.files[PREFERENCES]).steps() == []


def test_installation_that_apt_calls_a_success_and_is_none_is_found_out():
    packages = stack(Tools({}, WANTED, deaf=True))
    with pytest.raises(AptError, match="after all steps there was still to do: install libnccl2"):
        packages.install(packages.plan(""))
