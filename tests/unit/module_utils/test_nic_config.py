"""What mstconfig shows is read whole or not at all, and values are compared as the firmware means them."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.nic import firmware_settings as nic_config
from ansible_collections.muster.cluster.plugins.module_utils.nic.firmware_apply import (
    Device,
    NicError,
    Report,
    reconcile,
)
from ansible_collections.muster.cluster.plugins.module_utils.nic.firmware_settings import Shown
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Rail

from tests.fake_host import FakeHost

from .conftest import RECORDED

TABLE = """
Device #1:
----------

Device type:        ConnectX7
Device:             1a:00.0

Configurations:                                     Default              Current              Next Boot
        NUM_OF_VFS                                  8                    0                    0
*       MAX_ACC_OUT_READ                            0                    0                    128
        PCI_DOWNSTREAM_PORT_OWNER                   Array[0..15]         Array[0..15]         Array[0..15]
        LINK_TYPE_P1                                IB(1)                ETH(2)               ETH(2)
        MKEY_BY_NAME                                N/A                  N/A                  False(0)
The '*' shows parameters with next value different from default/current value.
"""

# As mstflint 4.26 and later print it (4.31 of Debian 13 has the words).
READ_ONLY = (
    TABLE
    + """ RO     NUM_OF_PLANES_P1                            0                    0                    0
*RO     ROCE_CONTROL                                1                    2                    2

The 'RO' shows parameters which are for read only and cannot be changed
"""
)


def test_rows_that_nobody_can_set_are_read_as_the_others():
    settings = nic_config.parse_settings(READ_ONLY)
    assert len(settings) == len(nic_config.parse_settings(TABLE)) + 2
    assert {key for key, setting in settings.items() if setting.read_only} == {"NUM_OF_PLANES_P1", "ROCE_CONTROL"}
    assert (settings["ROCE_CONTROL"].current.number, settings["NUM_OF_PLANES_P1"].next_boot.number) == (2, 0)
    assert nic_config.read_only(settings, {"NUM_OF_PLANES_P1": "0", "LINK_TYPE_P1": "IB"}) == []
    told = ["ROCE_CONTROL is 2, declared 1, and read-only"]
    assert nic_config.read_only(settings, {"ROCE_CONTROL": "1", "LINK_TYPE_P1": "IB"}) == told


def test_recorded_query_is_read_with_lists_and_names():
    path = RECORDED / "mlxconfig" / "mstconfig-e-query-cx4lx-template.txt"
    if not path.exists():
        pytest.skip("no recorded outputs here")
    # A Go template: the places of its format string are filled as its program would.
    text = path.read_text()
    for place, value in (("%s\n", ""), ("%s(0)", "False(0)"), ("%s(1)", "True(1)"), ("%d", "4 "), ("%s", "x")):
        text = text.replace(place, value)
    settings = nic_config.parse_settings(text)
    assert len(settings) > 90
    assert settings["SRIOV_EN"].current == Shown("True(1)", "True", 1)
    assert settings["ROCE_CC_PRIO_MASK_P1"].next_boot.number == 255
    assert settings["PCI_DOWNSTREAM_PORT_OWNER"].current.number is None


@pytest.mark.parametrize("name", ["mlxconfig-query-cx7-filtered.txt", "mlxconfig-set-link-type-pending.txt"])
def test_recorded_tables_without_the_current_values_are_refused(name):
    path = RECORDED / "mlxconfig" / name
    if not path.exists():
        pytest.skip("no recorded outputs here")
    with pytest.raises(Unreadable, match="expected"):
        nic_config.parse_settings(path.read_text())


def test_recorded_firmware_query_gives_running_and_next_version():
    path = RECORDED / "mlxconfig" / "flint-query-cx7.txt"
    if not path.exists():
        pytest.skip("no recorded outputs here")
    assert nic_config.parse_firmware(path.read_text()) == ("28.43.1014", "28.43.1014")
    burnt = "FW Version:            28.44.1036\nFW Version(Running):   28.43.1014\n"
    assert nic_config.parse_firmware(burnt) == ("28.43.1014", "28.44.1036")


@pytest.mark.parametrize("text", ["", "FW Version:  unknown\n", "FW Version:  28.43.10", "Image type:   FS4\n"])
def test_firmware_query_without_a_whole_version_is_refused(text):
    with pytest.raises(Unreadable):
        nic_config.parse_firmware(text)


def test_every_cut_of_a_table_is_refused_or_lacks_whole_settings():
    whole = nic_config.parse_settings(READ_ONLY)
    for end in range(len(READ_ONLY)):
        try:
            found = nic_config.parse_settings(READ_ONLY[:end])
        except Unreadable:
            continue
        assert all(whole[key] == value for key, value in found.items())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("8                    0                    0", "8                    0"),
        ("LINK_TYPE_P1", "NUM_OF_VFS"),
        ("MAX_ACC_OUT_READ", "max acc"),
        ("Next Boot", "New"),
        ("Configurations:", "Settings:"),
        # No mark that the tool has, and another legend than its own.
        ("*       MAX_ACC", "*WO     MAX_ACC"),
        ("The '*' shows parameters", "The '*' shows all"),
    ],
)
def test_damaged_table_is_refused(before, after):
    with pytest.raises(Unreadable, match="expected"):
        nic_config.parse_settings(TABLE.replace(before, after, 1))


@pytest.mark.parametrize(
    ("text", "wanted", "same"),
    [
        ("ETH(2)", "2", True),
        ("ETH(2)", "ETH", True),
        ("ETH(2)", "ETH(2)", True),
        ("ETH(2)", "IB", False),
        ("ETH(2)", "IB(2)", False),
        ("ETH(2)", "1", False),
        ("True(1)", "1", True),
        ("128", "128", True),
        ("8", "0x8", True),
        ("128", "12", False),
        ("128", "True", False),
        ("Array[0..15]", "Array[0..15]", False),
        ("N/A", "N/A", False),
    ],
)
def test_value_is_the_declared_one_by_number_or_name(text, wanted, same):
    assert Shown.of(text).is_(wanted) is same


def test_what_differs_waits_or_is_not_one_value_is_told_apart():
    settings = nic_config.parse_settings(TABLE)
    wanted = {"MAX_ACC_OUT_READ": "128", "LINK_TYPE_P1": "IB", "NUM_OF_VFS": "0", "NO_SUCH": "1"}
    assert nic_config.changes(settings, wanted) == [nic_config.Change("LINK_TYPE_P1", "ETH(2)", "IB")]
    assert nic_config.pending(settings, wanted) == ["MAX_ACC_OUT_READ is 0, 128 from the next boot on"]
    assert nic_config.hidden(settings, wanted) == ["NO_SUCH"]
    assert nic_config.unreadable(settings, wanted) == []
    for key in ("PCI_DOWNSTREAM_PORT_OWNER", "MKEY_BY_NAME"):
        assert nic_config.unreadable(settings, {key: "0"})


@pytest.mark.parametrize(("wanted", "argument"), [("ETH(2)", "2"), ("ETH", "ETH"), ("128", "128"), ("0x8", "0x8")])
def test_argument_is_a_number_or_a_name(wanted, argument):
    assert nic_config.argument_of(wanted) == argument


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("RO     MAX_ACC_OUT_READ  0  0  0", "MAX_ACC_OUT_READ is 0, declared 128, and read-only"),
        ("       MAX_ACC_OUT_READ  Array[0..1]  Array[0..1]  Array[0..1]", "expected one value"),
        ("       MAX_ACC_OUT_", "expected a setting"),
    ],
)
def test_what_was_set_is_reported_where_the_next_look_finds_an_error(row, why):
    query, setting = "mstconfig -d 0000:1a:00.0 -e query", "mstconfig -d 0000:1a:00.0 -y set ADVANCED_PCI_SETTINGS=1"
    head = "Configurations:  Default  Current  Next Boot\n"

    class Unlocked(FakeHost):
        """Shows another setting once the first is set."""

        def run(self, argv, timeout_seconds):
            if "set" in argv:
                shown = f"{head}*       ADVANCED_PCI_SETTINGS  False(0)  False(0)  True(1)\n {row}\n"
                self.outputs[query] = Output(shown)
            return super().run(argv, timeout_seconds)

    locked = f"{head}        ADVANCED_PCI_SETTINGS  False(0)  False(0)  False(0)\n"
    host = Unlocked({query: Output(locked), setting: Output("Applying... Done!\n")})
    device, report = Device(host, "mstconfig", Rail(0, "0000:1a:00.0")), Report()
    with pytest.raises(NicError, match=why):
        reconcile(device, {"ADVANCED_PCI_SETTINGS": "1", "MAX_ACC_OUT_READ": "128"}, False, False, report)
    assert host.commands == [query, setting, query]
    assert [change.key for change in report.changes] == ["ADVANCED_PCI_SETTINGS"]
