"""What is wrong by the BMC's word, and what is not."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import (
    airflow,
    bmc_log,
    bmc_sensors,
    firmware,
    inlet_temperature,
    power_supplies,
)
from ansible_collections.muster.cluster.plugins.module_utils.formats.bmc import Event, Sensor
from ansible_collections.muster.cluster.plugins.module_utils.probes.dmidecode import Firmware
from ansible_collections.muster.cluster.plugins.module_utils.probes.ipmi_sdr import Sensors
from ansible_collections.muster.cluster.plugins.module_utils.probes.ipmi_sel import Log
from ansible_collections.muster.cluster.plugins.module_utils.probes.redfish import Documents

from tests.typed import typed


def judged(expect, *events, overflow=False):
    found = bmc_log.decide({"ipmi_sel": Log(tuple(events), overflow), "redfish": None}, typed(expect))
    return {finding.subject: (finding.verdict, finding.action) for finding in found}


def event(sensor, text, asserted=True, time="2026-03-01T00:00:00", **more):
    return Event("1", time, sensor, text, asserted, **more)


CE = event("Memory", "Correctable ECC | CPU 0 DIMM 8")
PASS, WATCH = {"bmc": ("pass", "none")}, {"bmc": ("pass", "investigate")}


def test_empty_log_passes(expect):
    assert judged(expect) == PASS


def test_one_correctable_error_is_watched_and_the_second_names_the_dimm(expect):
    assert judged(expect, CE) == WATCH
    assert judged(expect, CE, CE) == {"dimm CPU 0 DIMM 8": ("fail", "replace"), "bmc": ("pass", "none")}


def test_correctable_errors_of_two_dimms_are_counted_apart(expect):
    assert judged(expect, CE, event("Memory", "Correctable ECC | CPU 1 DIMM 2")) == WATCH


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("Uncorrectable ECC (UnCorrectable ECC | DIMMD7)", "dimm DIMMD7"),
        ("Uncorrectable ECC (CPU0_G1)", "dimm CPU0_G1"),
        ("Uncorrectable ECC", "dimm Memory #0x88"),
        ("Correctable ECC logging limit reached | DIMM A3", "dimm DIMM A3"),
    ],
)
def test_memory_fault_names_the_dimm(expect, text, part):
    assert judged(expect, event("Memory #0x88", text))[part] == ("fail", "replace")


def test_uncorrectable_error_does_not_end_with_its_state(expect):
    events = [event("Memory", "Uncorrectable ECC | DIMM A3", asserted) for asserted in (True, False)]
    assert judged(expect, *events)["dimm DIMM A3"] == ("fail", "replace")


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("Power Supply AC lost", "investigate"),
        ("Failure detected", "replace"),
        ("Predictive failure", "replace"),
        ("Upper Critical going high | Reading 45 > Threshold 42", "investigate"),
        ("Upper Non-recoverable going high", "investigate"),
        ("Redundancy Lost", "investigate"),
        ("Drive Fault", "replace"),
        ("IERR", "investigate"),
        ("Bus Fatal Error", "investigate"),
    ],
)
def test_open_fault_fails_and_one_that_is_over_is_watched(expect, text, action):
    assert judged(expect, event("S", text)) == {"bmc": ("fail", action)}
    assert judged(expect, event("S", text), event("S", text, asserted=False)) == WATCH
    again = [event("S", text, asserted) for asserted in (True, False, True)]
    assert judged(expect, *again) == {"bmc": ("fail", action)}


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("General Chassis intrusion", WATCH),
        ("Upper Non-critical going high", WATCH),
        ("boot completed", PASS),
        ("Presence detected", PASS),
        ("Timestamp Clock Sync", PASS),
        ("Bus Correctable Error", WATCH),
    ],
)
def test_event_that_is_no_fault(expect, text, verdict):
    assert judged(expect, event("S", text)) == verdict


@pytest.mark.parametrize(
    ("sensor", "text", "verdict"),
    [
        ("Processor CPU1", "Disabled", "fail"),
        ("Memory #0x10", "Parity | DIMM A1", "fail"),
        ("Battery VBAT", "Failed", "fail"),
        ("Battery VBAT", "Presence detected", "pass"),
        ("Slot / Connector #0x21", "Fault Status", "fail"),
        ("Critical Interrupt #0x12", "Bus Timeout", "fail"),
        ("Critical Interrupt #0x12", "Software NMI", "pass"),
        ("Power Unit #0x1", "Power off/down", "pass"),
        ("Power Unit #0x1", "Soft-power control failure", "fail"),
        ("System Firmware #0x6", "Progress 1", "pass"),
        ("System Firmware #0x6", "Error", "fail"),
        ("Fan FAN1", "Device Removed/Absent", "fail"),
        ("Entity Presence #0x1", "Device Removed/Absent", "pass"),
        ("Power Supply #0x51", "Predictive Failure Deasserted", "pass"),
        ("Power Supply #0x51", "Non-Redundant: Sufficient from Redundant", "fail"),
        ("Temperature Inlet", "Upper Critical going low", "pass"),
        ("OS Boot", "C: boot completed", "pass"),
        ("Button #0x1", "State Asserted", "pass"),
        ("Fan FAN1", "Transition to Running", "pass"),
        ("", "A PCIe device reports an uncorrectable error", "fail"),
        ("Power Supply PS3", "Power Supply Fan Fail", "fail"),
        ("Voltage #0x1", "Failover to Redundant Interface", "pass"),
        ("Unknown #0x3", "Fail-safe mode off", "pass"),
    ],
)
def test_event_means_what_the_type_of_its_sensor_makes_of_it(expect, sensor, text, verdict):
    found = judged(expect, event(sensor, text))
    assert next(iter(found.values()))[0] == verdict


def test_supply_that_was_put_in_again_closes_its_own_fault_alone(expect):
    failed = [event("", f"PS{n} Status, Power Supply Failure detected", severity="critical") for n in (1, 2)]
    back = [event("", f"PS{n} Status, Power Supply Installed", severity="ok") for n in (1, 2)]
    assert judged(expect, *failed, *back) == WATCH
    assert judged(expect, *failed, back[0])["bmc"][0] == "fail"
    assert judged(expect, *failed, event("", "Power Supply Installed", severity="ok"))["bmc"][0] == "fail"


def test_what_is_not_about_hardware_is_watched_and_what_is_stays_open_until_repaired(expect):
    said = {"severity": "critical", "text": "an operation cannot be completed"}
    assert judged(expect, event("", **said, hardware=False)) == WATCH
    assert judged(expect, event("", **said))["bmc"][0] == "fail"
    said = {"severity": "warning", "text": "a part of no known kind", "hardware": True}
    assert judged(expect, event("", **said, resolved=False))["bmc"][0] == "fail"
    assert judged(expect, event("", **said, resolved=True)) == PASS
    assert judged(expect, event("", "Input Power Loss (Power Supply 2)", severity="warning"))["bmc"][0] == "fail"


def test_supply_that_left_its_slot_is_a_fault_until_it_is_back(expect):
    gone, back = event("PS2", "Presence detected", asserted=False), event("PS2", "Presence detected")
    assert judged(expect, gone) == {"bmc": ("fail", "investigate")}
    assert judged(expect, gone, back) == PASS


def test_regained_redundancy_ends_its_loss(expect):
    assert judged(expect, event("PS", "Redundancy Lost"), event("PS", "Fully Redundant")) == WATCH


def test_what_was_before_the_log_was_cleared_or_before_the_declared_date_does_not_count(expect):
    old = event("S", "Failure detected", time="2026-01-31T23:59:59")
    assert judged(expect, old, event("SEL", "Log area reset/cleared")) == PASS
    expect["bmc"]["log"]["since"] = "2026-02-01"
    assert judged(expect, old) == PASS
    assert judged(expect, event("S", "Failure detected", time="2026-02-01T00:00:00"))["bmc"][0] == "fail"
    assert judged(expect, event("S", "Failure detected", time=None))["bmc"][0] == "fail"


def test_log_that_lost_entries_is_incomplete_unless_it_shows_a_fault(expect):
    assert judged(expect, overflow=True) == {"bmc": ("incomplete", "investigate")}
    assert judged(expect, event("S", "Failure detected"), overflow=True)["bmc"] == ("fail", "replace")


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({"severity": "critical"}, {"bmc": ("fail", "investigate")}),
        ({"severity": "critical", "resolved": True}, WATCH),
        ({"severity": "warning"}, WATCH),
        ({"severity": "ok"}, PASS),
        ({}, PASS),
    ],
)
def test_severity_of_a_redfish_entry(expect, more, verdict):
    assert judged(expect, event("", "something happened", **more)) == verdict


@pytest.mark.parametrize(
    "text",
    [
        "GPU_SXM_1 Driver Event Message has detected errors of type 'XID 62'",
        "The resource property HMC SMBPBI has detected errors of type 'Failover to Redundant Interface(i2c)'.",
    ],
)
def test_what_the_kernel_log_judges_is_only_watched_here(expect, text):
    assert judged(expect, event("", text, severity="critical")) == WATCH


def documents(**more):
    return Documents(**{"sensors": (), "supplies": (), "events": (), "firmware": None, "unread": {}, **more})


def test_redfish_log_that_is_missing_is_incomplete(expect):
    for document in (documents(events=None), documents(unread={"/log": "exit status 22"})):
        (finding,) = bmc_log.decide({"ipmi_sel": None, "redfish": document}, typed(expect))
        assert finding.verdict == "incomplete"


def sensors(*items):
    return {"ipmi_sdr": Sensors(tuple(items), ()), "redfish": None}


def by_part(check, values, expect):
    return {finding.subject: finding for finding in check.decide(values, typed(expect))}


def test_critical_sensor_is_named_and_a_warning_is_watched(expect):
    expect["bmc"]["sensors"] = {"count": 1, "required": ["Inlet Temp"]}
    found = by_part(
        bmc_sensors, sensors(Sensor("Inlet Temp", "ok", 20.0, "C"), Sensor("12V", "critical", 9.0, "V")), expect
    )
    assert (found["sensor 12V"].verdict, found["sensor 12V"].measured) == ("fail", 9.0)
    assert (found["sensor Inlet Temp"].verdict, found["bmc"].verdict) == ("pass", "pass")
    found = by_part(bmc_sensors, sensors(Sensor("Inlet Temp", "warning", 40.0, "C")), expect)
    assert (found["bmc"].verdict, found["bmc"].action) == ("pass", "investigate")


@pytest.mark.parametrize(
    "item", [(), (Sensor("Inlet Temp", "absent"),), (Sensor("Inlet Temp", "unknown", text="0x1"),)]
)
def test_required_sensor_without_a_reading_is_incomplete(expect, item):
    expect["bmc"]["sensors"] = {"count": 1, "required": ["Inlet Temp"]}
    found = by_part(bmc_sensors, sensors(Sensor("FAN1", "ok", 1.0, "RPM"), *item), expect)
    assert (found["sensor Inlet Temp"].verdict, found["bmc"].verdict) == ("incomplete", "pass")


def test_fan_that_stands_still_is_watched_where_the_bmc_has_no_limit_for_it(expect):
    expect["bmc"]["sensors"] = {"count": 1, "required": []}
    found = by_part(bmc_sensors, sensors(Sensor("FAN1", "ok", 0.0, "RPM", "0 RPM")), expect)["bmc"]
    assert (found.verdict, found.action) == ("pass", "investigate") and "FAN1: 0 RPM" in found.reason


@pytest.mark.parametrize(
    ("sensor", "text"),
    [("OEM record df", "000137 | 010203040506"), ("", "OEM record e0 010203"), ("Memory #1", "Spare")],
)
def test_event_whose_meaning_a_person_must_find_is_watched(expect, sensor, text):
    assert judged(expect, event(sensor, text)) == WATCH


@pytest.mark.parametrize(("count", "verdict"), [(2, "pass"), (3, "incomplete")])
def test_too_few_sensors_are_incomplete(expect, count, verdict):
    expect["bmc"]["sensors"] = {"count": count, "required": []}
    items = (Sensor("a", "ok"), Sensor("b", "ok"), Sensor("c", "absent"), Sensor("d", "unknown"))
    assert by_part(bmc_sensors, sensors(*items), expect)["bmc"].verdict == verdict


def supplies(*items):
    return {"ipmi_sdr": Sensors((), tuple(items)), "redfish": None}


@pytest.mark.parametrize(
    ("second", "verdict", "action"),
    [
        (Sensor("PS2", "ok", text="Presence detected"), "pass", "none"),
        (Sensor("PS2", "critical", text="Presence detected, Failure detected"), "fail", "replace"),
        (Sensor("PS2", "critical", text="Presence detected, Power Supply AC lost"), "fail", "investigate"),
        (Sensor("PS2", "critical", text="Health OK, LineInputStatus LossOfInput"), "fail", "investigate"),
        (Sensor("PS2", "absent"), "fail", "reseat"),
        (Sensor("PS2", "unknown", text="0x1"), "incomplete", "investigate"),
        (None, "fail", "reseat"),
    ],
)
def test_power_supply(expect, second, verdict, action):
    expect["bmc"]["power_supplies"]["count"] = 2
    values = supplies(*(item for item in (Sensor("PS1", "ok"), second) if item))
    found = by_part(power_supplies, values, expect)
    assert found["psu 1"].verdict == "pass" and (found["psu 2"].verdict, found["psu 2"].action) == (verdict, action)


def test_bmc_that_lists_no_supply_at_all_is_incomplete(expect):
    assert {item.verdict for item in by_part(power_supplies, supplies(), expect).values()} == {"incomplete"}


@pytest.mark.parametrize(
    ("sensor", "verdict"),
    [
        (Sensor("Inlet Temp", "ok", 37.0, "C"), "pass"),
        (Sensor("Inlet Temp", "ok", 37.1, "C"), "fail"),
        (Sensor("Inlet Temp", "ok", 0.0, "C"), "incomplete"),
        (Sensor("Inlet Temp", "absent", None, "C"), "incomplete"),
        (Sensor("Inlet Temp", "ok", 20.0, "Volts"), "incomplete"),
        (Sensor("Outlet", "ok", 20.0, "C"), "incomplete"),
    ],
)
def test_inlet_temperature(expect, sensor, verdict):
    (finding,) = inlet_temperature.decide(sensors(sensor), typed(expect))
    assert finding.verdict == verdict


def test_nothing_is_owed_without_a_bmc_and_no_finding_given_without_an_answer(expect):
    checks = (bmc_log, bmc_sensors, power_supplies, inlet_temperature, airflow)
    for check in checks:
        assert check.decide({"ipmi_sdr": None, "ipmi_sel": None, "redfish": None}, typed(expect)) == []
    for section in (None, {**expect["bmc"], **dict.fromkeys(("log", "sensors", "power_supplies", "inlet", "airflow"))}):
        assert [list(check.subjects(typed({**expect, "bmc": section}))) for check in checks] == [[]] * 5


@pytest.mark.parametrize(
    ("found", "bmc", "verdicts"),
    [
        (Firmware("Lab", "1.4", "Lab HGX", "s"), "1.01", ["pass", "pass", "pass", "pass"]),
        (Firmware("Lab", "1.3", "Lab HGX", "s"), "1.02", ["pass", "pass", "fail", "fail"]),
        (Firmware(None, None, None, None), None, ["incomplete"] * 4),
    ],
)
def test_firmware(expect, found, bmc, verdicts):
    values = {"dmidecode": found, "ipmi_mc": bmc, "redfish": None}
    assert [finding.verdict for finding in firmware.decide(values, typed(expect))] == verdicts
    values = {"dmidecode": found, "ipmi_mc": None, "redfish": documents(firmware=bmc)}
    assert [finding.verdict for finding in firmware.decide(values, typed(expect))] == verdicts


def test_undeclared_firmware_is_not_compared(expect):
    expect["firmware"].update(system_product=None, bios_vendor=None, bmc_version=None)
    assert list(firmware.subjects(typed(expect))) == ["bios"]
    expect["firmware"] = None
    assert list(firmware.subjects(typed(expect))) == []
