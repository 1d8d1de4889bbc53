"""What a BMC says: through ipmitool and through Redfish."""

import json
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.blocks import joined
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import (
    dmidecode,
    ipmi_mc,
    ipmi_sdr,
    ipmi_sel,
    redfish,
)

from tests.typed import typed

HEALTHY = Path(__file__).resolve().parents[3] / "healthy"
SEL = (HEALTHY / "ipmi_sel.txt").read_text()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            " 18 | 01/27/2015 | 11:41:08 | Memory | Correctable ECC | Asserted | CPU 0 DIMM 8",
            ("2015-01-27T11:41:08", "Memory", "Correctable ECC | CPU 0 DIMM 8", True),
        ),
        (
            "  3a | 12/14/22 | 23:09:44 CET | Memory #0x88 | Correctable ECC (CPU0_G1) | Asserted",
            ("2022-12-14T23:09:44", "Memory #0x88", "Correctable ECC (CPU0_G1)", True),
        ),
        (
            "  34 | 02/25/2025 | 04:50:09 PM EST | Memory #2 | Uncorrectable ECC (UnCorrectable |  DIMMD7) | Asserted",
            ("2025-02-25T16:50:09", "Memory #2", "Uncorrectable ECC (UnCorrectable | DIMMD7)", True),
        ),
        (
            "   5 |  Pre-Init  |0000000123| System Event #0x01 | Timestamp Clock Sync | Asserted",
            (None, "System Event #0x01", "Timestamp Clock Sync", True),
        ),
        (
            "   4 | 06/05/2021 | 15:40:25 | Temp Inlet | Upper Critical going high | Deasserted | Reading 40 > 39",
            ("2021-06-05T15:40:25", "Temp Inlet", "Upper Critical going high | Reading 40 > 39", False),
        ),
        (
            " 3e | 02/01/2015 | 17:14:54 | VBAT   | 38h | lcr |  7.18 | 2.54 Volts",
            ("2015-02-01T17:14:54", "VBAT", "Lower Critical (2.54 Volts)", True),
        ),
        (
            "   1 | 01/01/1970 | 00:00:10 | Fan #0x1 | Lower Critical going low",
            (None, "Fan #0x1", "Lower Critical going low", True),
        ),
        ("   2 | OEM record dd | 000137 | 1a2b3c4d5e6f", (None, "", "OEM record dd 000137 1a2b3c4d5e6f", True)),
    ],
)
def test_entry_of_the_log(line, expected):
    (event,) = ipmi_sel.parse(Output(line + "\n")).events
    assert (event.time, event.sensor, event.text, event.asserted) == expected


def sel(info="Entries          : 0\nOverflow         : false\n", entries=""):
    return joined({"sel info": Output(info), "sel elist": Output(entries)})


def test_log_with_all_the_entries_it_counts():
    log = ipmi_sel.parse(Output(SEL))
    assert (len(log.events), log.overflow) == (1, False)
    assert ipmi_sel.parse(sel()).events == ()
    assert ipmi_sel.parse(Output("SEL has no entries\n")).events == ()
    assert ipmi_sel.parse(sel("Entries : 0\nOverflow : true\n")).overflow


VERBOSE = """SEL Record ID          : 0017
 Record Type           : 02
 Timestamp             : 01/27/2026 11:31:21
 Sensor Type           : Power Supply
 Sensor Number         : 51
 Event Type            : Sensor-specific Discrete
 Event Direction       : Assertion Event
 Event Data            : 03ffff
 Description           : Power Supply AC lost

SEL Record ID          : 0018
 Timestamp             : 01/27/2026 11:32:21
 Sensor Type           : Power Supply
 Sensor Number         : 51
 Event Direction       : Deassertion Event
 Description           : Power Supply AC lost
"""


def test_log_as_paragraphs_is_read_like_its_lines():
    lost, back = ipmi_sel.parse(Output(VERBOSE)).events
    assert (lost.id, lost.sensor, lost.text) == ("17", "Power Supply #0x51", "Power Supply AC lost")
    assert (lost.asserted, back.asserted, lost.time) == (True, False, "2026-01-27T11:31:21")
    for text in (VERBOSE[:-1], VERBOSE.replace(" Description           : Power Supply AC lost\n", "", 1)):
        with pytest.raises(Unreadable):
            ipmi_sel.parse(Output(text))


@pytest.mark.parametrize(
    "output",
    [
        Output(""),
        Output("", "Could not open device at /dev/ipmi0", 1),
        Output("==> sel info <==\n"),
        sel("Entries : 1\nOverflow : false\n"),
        sel("Entries : N/A\nOverflow : false\n"),
        sel("Entries : 1\n", "   1 | 01/27/2015 | 11:41:08 | Memory | Correctable ECC | Asserted\n"),
        joined({"sel info": Output("Entries : 0\nOverflow : false\n"), "sel elist": Output("", "no device", 1)}),
        Output("1 | 01/27/2015 | 11:41:08 | Memory | Correctable ECC | Asserted"),
        Output("garbage\n"),
        Output("1 | 01/27/2015 | 11:41:08 | Asserted | x\n"),
        Output("1 | yesterday | 11:41:08 | Memory | Correctable ECC | Asserted\n"),
    ],
)
def test_log_that_is_not_whole_is_unreadable(output):
    with pytest.raises(Unreadable):
        ipmi_sel.parse(output)


def test_recorded_log(recorded):
    log = ipmi_sel.parse(Output(recorded("ipmi/ipmitool-sel-list-dimm-ce.txt")))
    assert (len(log.events), log.events[-1].sensor, log.events[0].time) == (11, "VBAT", "2015-01-27T11:31:21")


def test_recorded_sensors(recorded):
    sensors = ipmi_sdr.parse(Output(recorded("ipmi/ipmitool-sdr-type-voltage.txt"))).sensors
    states = {item.name: (item.state, item.reading) for item in sensors}
    assert states["CPU2 Vcore"] == ("absent", None) and states["VBAT"] == ("ok", 3.22) and len(states) == 15


@pytest.mark.parametrize(
    ("line", "state", "reading", "unit"),
    [
        ("Inlet Temp       | 04h | ok  |  7.1 | -3 degrees C", "ok", -3.0, "C"),
        ("Inlet Temp       | 04h | ucr |  7.1 | 45 degrees C", "critical", 45.0, "C"),
        ("Inlet Temp       | 04h | unc |  7.1 | 40 degrees C", "warning", 40.0, "C"),
        ("FAN1 | 41h | lnr | 29.1 | 0 RPM", "critical", 0.0, "RPM"),
        ("FAN1 | 41h | ns | 29.1 | No Reading", "absent", None, ""),
        ("FAN1 | 41h | ok | 29.1 | No Reading", "absent", None, ""),
        ("FAN1 | 41h | ?? | 29.1 | 4200 RPM", "unknown", 4200.0, "RPM"),
        ("CPU1 Temp        | 45 degrees C      | cr", "critical", 45.0, "C"),
        ("FAN1 | 0.000 | RPM | cr | na | 500.0 | 700.0 | na | na | na", "critical", 0.0, "RPM"),
        ("FAN1 | 4200.000 | RPM | ok | na | 500.0 | 700.0 | na | na | na", "ok", 4200.0, "RPM"),
        ("FAN3 | na | | na | na | 500.0 | 700.0 | na | na | na", "absent", None, ""),
        # What a bit of the mask means nobody can tell from here: 0x8000 may be a failure.
        ("PS1 Status | 0x1 | discrete | 0x0100 | na | na | na | na | na | na", "unknown", None, ""),
        ("CPU1 Status | 0x0 | discrete | 0x8180 | na | na | na | na | na | na", "unknown", None, ""),
        ("CPU Status | 80h | ok | 3.1 | IERR", "critical", None, ""),
        ("CPU Status | 80h | ok | 3.1 | Presence detected", "ok", None, ""),
        ("PS Redundancy | 77h | ok | 7.1 | Redundancy Lost", "critical", None, ""),
        ("Drive 4 | 64h | ok | 4.4 | Drive Present, Drive Fault", "critical", None, ""),
    ],
)
def test_sensor(line, state, reading, unit):
    (sensor,) = ipmi_sdr.parse(Output(line + "\n")).sensors
    assert (sensor.state, sensor.reading, sensor.unit) == (state, reading, unit)


@pytest.mark.parametrize(
    ("line", "states"),
    [
        ("PS1 Status | C8h | ok  | 10.1 | Presence detected", ["ok"]),
        ("Status | 63h | ok  | 10.2 | Presence detected, Power Supply AC lost", ["critical"]),
        ("PSU2 Status | 75h | cr  | 10.2 | Failure detected", ["critical"]),
        ("PS3_Status | ECh | ok  | 10.3 | ", ["absent"]),
        ("Power Supply 1   | C2h | ns  |  10.1 | No Reading", ["absent"]),
        ("PS4 Status | EDh | ok | 10.4 | 0x01", ["unknown"]),
        ("PSU1 PG Fail | 78h | ns  | 10.1 | Disabled", []),
        ("PS1 Input | 6Ch | ok | 10.1 | 232 Volts", []),
        ("PSU Alert | 34h | ns | 208.1 | Event-Only", []),
        ("PS 1             | 00h | ns  | 10.1 | Logical FRU @02h", []),
        ("PS1 Status       | Presence detected | ok", ["ok"]),
    ],
)
def test_power_supply(line, states):
    assert [item.state for item in ipmi_sdr.parse(Output(line + "\n")).supplies] == states


def test_supplies_stand_in_the_order_of_their_entities():
    lines = "".join(f"Status | 6{n}h | ok | 10.{n} | {'' if n == 2 else 'Presence detected'}\n" for n in (10, 2, 1))
    assert [item.state for item in ipmi_sdr.parse(Output(lines)).supplies] == ["ok", "absent", "ok"]


@pytest.mark.parametrize("output", [Output(""), Output("x\n"), Output("a | b"), Output("", "no device", 1)])
def test_sensor_list_that_is_none_is_unreadable(output):
    with pytest.raises(Unreadable):
        ipmi_sdr.parse(output)


def test_controller_firmware():
    assert ipmi_mc.parse(Output((HEALTHY / "ipmi_mc.txt").read_text())) == "1.01"
    for output in (Output(""), Output("Firmware Revision : 1.0"), Output("", "no device", 1)):
        with pytest.raises(Unreadable):
            ipmi_mc.parse(output)


def test_firmware_of_the_host(recorded):
    read = dmidecode.parse(Output(recorded("dmidecode/dmidecode-xe9680-system.txt")))
    assert (read.system_product, read.system_serial, read.bios_version) == ("PowerEdge XE9680", "HSR8X04", None)
    ours = dmidecode.parse(Output((HEALTHY / "dmidecode.txt").read_text()))
    assert (ours.bios_vendor, ours.bios_version, ours.system_product) == ("Lab", "1.4", "Lab HGX")


def test_half_a_value_is_no_value():
    text = (HEALTHY / "dmidecode.txt").read_text()
    cut = text[: text.index("Version: 1.4") + len("Version: 1")]
    assert dmidecode.parse(Output(cut)).bios_version is None


@pytest.mark.parametrize("output", [Output(""), Output("# dmidecode 3.3\n"), Output("", "Permission denied", 1)])
def test_no_firmware_table_is_unreadable(output):
    with pytest.raises(Unreadable):
        dmidecode.parse(output)


def one(text):
    return redfish.parse(Output(text))


def test_recorded_thermal_documents(recorded):
    dgx = one(recorded("redfish/dgxh100-chassis-thermal.json"))
    assert [sum(item.state == state for item in dgx.sensors) for state in ("ok", "absent")] == [143, 13]
    smc = one(recorded("redfish/smc821ge-thermal.json"))
    assert [sum(item.state == state for item in smc.sensors) for state in ("ok", "absent")] == [42, 2]


@pytest.mark.parametrize(
    ("name", "reading", "state"),
    [
        ("dgxh100-sensor-temp-gpu1", 27, "ok"),
        ("dgxh100-sensor-temp-gpu1", 84.9, "ok"),
        ("dgxh100-sensor-temp-gpu1", 85, "warning"),
        ("dgxh100-sensor-temp-gpu1", 88, "critical"),
        ("dgxh100-sensor-temp-gpu1", None, "unknown"),
        # A T.Limit is a margin: low is bad.
        ("dgxh100-sensor-tlimit-gpu1", 60, "ok"),
        ("dgxh100-sensor-tlimit-gpu1", 0, "warning"),
        ("dgxh100-sensor-tlimit-gpu1", -3, "critical"),
        ("dgxh100-sensor-temp-osfp-absent", None, "absent"),
    ],
)
def test_thresholds_of_a_recorded_sensor(recorded, name, reading, state):
    document = json.loads(recorded(f"redfish/{name}.json"))
    document["Reading"] = reading
    (sensor,) = one(json.dumps(document)).sensors
    assert (sensor.state, sensor.reading) == (state, reading)


def test_recorded_supplies_systems_and_logs(recorded):
    power = one(recorded("redfish/smc821ge-power.json"))
    assert [item.state for item in power.supplies] == ["ok"] * 8
    assert {item.state for item in one(recorded("redfish/dgxh100-system.json")).sensors} == {"ok"}
    assert {item.state for item in one(recorded("redfish/gb200-leakdetector-coldplate0.json")).sensors} == {"ok"}
    assert len(one(recorded("redfish/dgxh100-bmc-sel.json")).events) == 75
    entries = one(recorded("redfish/idrac9-sel.json")).events
    assert [event.id for event in entries] == ["1020", "1021", "1022", "1023", "1024"]


def test_documents_that_were_not_read_are_told():
    good = '{"@odata.type": "#Sensor.v1_0_2.Sensor", "Name": "T", "Reading": 1, "Status": {"Health": "OK"}}'
    read = redfish.parse(
        joined({"/a": Output(good), "/b": Output("", "401", 22), "/c": Output("<html>"), "/d": Output("{}")})
    )
    assert len(read.sensors) == 1 and sorted(read.unread) == ["/b", "/c", "/d"]


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({}, False),
        ({"Members@odata.nextLink": "/redfish/v1/x?$skip=50"}, True),
        ({"Members@odata.count": 3}, True),
        ({"Members": [{"@odata.id": "/redfish/v1/x/1"}]}, True),
        ({"Members": None}, True),
    ],
)
def test_log_of_which_a_part_is_missing(change, missing):
    entry = {"Id": "1", "Message": "m", "Severity": "OK", "Created": "2026-01-01T00:00:00Z"}
    log = {
        "@odata.type": "#LogEntryCollection.LogEntryCollection",
        "Members": [entry],
        "Members@odata.count": 1,
        **change,
    }
    good = {"@odata.type": "#Sensor.x", "Reading": 1, "Status": {"Health": "OK"}}
    read = redfish.parse(joined({"/log": Output(json.dumps(log)), "/s": Output(json.dumps(good))}))
    assert bool(read.unread) == missing


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"Oem": {"Hpe": {"Repaired": False, "Categories": ["Hardware", "Power"]}}}, (False, True)),
        ({"Oem": {"Hpe": {"Repaired": True, "Categories": ["Administration"]}}}, (True, False)),
        ({"Oem": {"Dell": {"Category": "Configuration"}}}, (None, False)),
        ({"Oem": {"Dell": {"Category": "System Health"}}}, (None, True)),
        ({"Resolved": True, "MessageId": "Update.1.0.UpdateSuccessful"}, (True, False)),
        ({"MessageId": "ResourceEvent.1.0.ResourceErrorsDetected"}, (None, None)),
        ({"Oem": "x"}, (None, None)),
    ],
)
def test_entry_says_whether_it_is_repaired_and_about_hardware(more, expected):
    entry = {"Id": "1", "Message": "m", "Severity": "Warning", **more}
    log = {"@odata.type": "#LogEntryCollection.LogEntryCollection", "Members": [entry]}
    (event,) = one(json.dumps(log)).events
    assert (event.resolved, event.hardware) == expected


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({}, "ok"),
        ({"DetectorState": "OK"}, "ok"),
        ({"DetectorState": "Warning"}, "warning"),
        ({"DetectorState": "Critical"}, "critical"),
        ({"LineInputStatus": "Normal"}, "ok"),
        ({"LineInputStatus": "LossOfInput"}, "critical"),
        ({"FailurePredicted": False, "PredictedMediaLifeLeftPercent": 98}, "ok"),
        ({"FailurePredicted": True}, "critical"),
        ({"PredictedMediaLifeLeftPercent": 0}, "critical"),
        ({"StatusIndicator": "OK"}, "ok"),
        ({"StatusIndicator": "PredictiveFailureAnalysis"}, "critical"),
        ({"Status": {"State": "Enabled", "Health": "OK", "Conditions": [{"Severity": "Critical"}]}}, "critical"),
        ({"Status": {"State": "Enabled", "Health": "OK", "Conditions": []}}, "ok"),
    ],
)
def test_what_a_part_says_beside_its_health_counts(more, state):
    part = {"@odata.type": "#Drive.v1_17_0.Drive", "Name": "D3", "Status": {"State": "Enabled", "Health": "OK"}, **more}
    assert [sensor.state for sensor in redfish.parse(Output(json.dumps(part))).sensors] == [state]


def test_detector_of_a_group_needs_no_status_of_its_own():
    group = {"GroupName": "g", "Detectors": [{"DetectorState": "Critical"}, {"DetectorState": "OK"}]}
    text = json.dumps({"@odata.type": "#LeakDetection.v1_0_0.LeakDetection", "LeakDetectorGroups": [group]})
    assert [sensor.state for sensor in redfish.parse(Output(text)).sensors] == ["critical", "ok"]


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"LinkStatus": "LinkUp"}, "ok"),
        ({"LinkStatus": "LinkDown"}, "critical"),
        ({"LinkStatus": "NoLink"}, "warning"),
        ({"LinkStatus": None}, "unknown"),
        ({"LinkStatus": "LinkDown", "InterfaceEnabled": False}, "absent"),
    ],
)
def test_link_of_a_listed_port(more, state):
    port = {
        "@odata.type": "#EthernetInterface.v1",
        "@odata.id": "/redfish/v1/Systems/1/EthernetInterfaces/1",
        "Id": "1",
    }
    (sensor,) = one(json.dumps({**port, **more})).sensors
    assert (sensor.name, sensor.state) == ("link 1", state)
    own = {**port, **more, "@odata.id": "/redfish/v1/Managers/1/EthernetInterfaces/1"}
    assert one(json.dumps(own)).sensors == ()


@pytest.mark.parametrize("text", ["", "x", "{", "{}", "[]", "==> /a <== (exit status 22: 401)\n", '{"@odata.type": 5}'])
def test_text_that_is_no_document_is_unreadable(text):
    with pytest.raises(Unreadable):
        one(text)


@pytest.mark.parametrize("probe", [ipmi_sel, ipmi_sdr, ipmi_mc, redfish])
def test_bmc_that_is_not_declared_is_not_asked(fake_host, expect, probe):
    expect["bmc"] = None
    assert probe.parse(probe.collect(fake_host, typed(expect))) is None and not fake_host.runs


def test_password_stays_out_of_the_arguments(fake_host, expect):
    expect["bmc"]["interface"] = "redfish"
    expect["bmc"]["redfish"] = {
        "address": "192.0.2.9",
        "netrc": "/etc/muster/bmc",
        "certificate": None,
        "documents": ["/a"],
    }
    fake_host.outputs["curl"] = Output("{}")
    redfish.collect(fake_host, typed(expect))
    ((*argv, url),) = fake_host.runs
    assert url == "https://192.0.2.9/a" and argv[-2:] == ["--netrc-file", "/etc/muster/bmc"]
    assert "--insecure" not in argv
