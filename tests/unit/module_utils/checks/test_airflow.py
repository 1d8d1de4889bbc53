"""The air through a host: how much warmer it leaves, and how many fans turn."""

import json
import math

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import airflow
from ansible_collections.muster.cluster.plugins.module_utils.formats.bmc import Sensor
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes import ipmi_sdr, redfish
from ansible_collections.muster.cluster.plugins.module_utils.probes.ipmi_sdr import Sensors
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError

from tests.typed import typed

from ..conftest import HEALTHY, RECORDED


def fans(*readings, unit="RPM"):
    return [Sensor(f"FAN{number}", "ok", reading, unit) for number, reading in enumerate(readings, 1)]


def warm(inlet, outlet):
    return [Sensor("Inlet Temp", "ok", inlet, "C"), Sensor("Exhaust Temp", "ok", outlet, "C")]


def judged(expect, *sensors, **changes):
    """Return the finding by a class with at most 25 C of rise and at least four fans."""
    expect["bmc"]["airflow"] = {"outlet": "Exhaust Temp", "rise_celsius": 25, "fans": 4, **changes}
    (finding,) = airflow.decide({"ipmi_sdr": Sensors(sensors, ()), "redfish": None}, typed(expect))
    assert (finding.check, finding.subject) == ("airflow", "host")
    return finding


FOUR = fans(5040.0, 5040.0, 5100.0, 5160.0)


@pytest.mark.parametrize(
    ("sensors", "verdict", "words"),
    [
        ([*warm(23.0, 48.0), *FOUR], "pass", "Inlet Temp 23 C, Exhaust Temp 48 C; 4 fans turn, 5070 RPM in the middle"),
        ([*warm(23.0, 48.5), *FOUR], "fail", "25.5 C warmer, class limit 25 C: too little air goes through"),
        ([*warm(23.0, 21.0), *FOUR], "pass", ""),
        ([*warm(23.0, 20.9), *FOUR], "incomplete", "the outlet is colder: are the sensors the right ones?"),
        ([*warm(23.0, 0.0), *FOUR], "incomplete", "no temperature of Exhaust Temp"),
        ([*warm(0.0, None), *FOUR], "incomplete", "no temperature of Inlet Temp and Exhaust Temp"),
        (FOUR, "incomplete", "no temperature of Inlet Temp and Exhaust Temp"),
        ([*warm(23.0, 39.0), *fans(5040.0, 0.0, 5040.0, 5040.0)], "fail", "3 of 4 fans turn: FAN2 without speed"),
        ([*warm(23.0, 39.0), *fans(5040.0, 5040.0, 5040.0)], "fail", "3 of 4 fans turn: the BMC tells the speed of no"),
        ([*warm(23.0, 39.0), *FOUR, Sensor("FAN4", "ok", 0.0, "RPM")], "fail", "3 of 4 fans turn: FAN4 without speed"),
        ([*warm(23.0, 39.0), *FOUR, Sensor("FAN5", "ok", 0.0, "RPM")], "pass", "4 fans turn"),
        ([*warm(23.0, 39.0), *FOUR[:3], Sensor("FAN4", "absent", None, "RPM")], "fail", "3 of 4 fans turn"),
        (warm(23.0, 39.0), "incomplete", "the BMC tells no fan's speed"),
        # HPE's iLO tells fans in percent; an iDRAC tells by percent how busy the CPU is.
        ([*warm(23.0, 39.0), *fans(30.0, 31.0, 30.0, 30.0, unit="percent")], "pass", "4 fans turn"),
        ([*warm(23.0, 39.0), *FOUR[:3], Sensor("CPU Usage", "ok", 9.0, "percent")], "fail", "3 of 4 fans turn"),
        # What no fan can do is no turning.
        ([*warm(23.0, 39.0), *FOUR[:3], *fans(-1.0)], "fail", "2 of 4 fans turn"),
        ([*warm(23.0, 39.0), *FOUR[:3], Sensor("FAN4", "ok", math.nan, "RPM")], "fail", "3 of 4 fans turn"),
        # A fan that stands still is told to turn, which makes no other one turn.
        (
            [*warm(23.0, 39.0), *fans(0.0, 5040.0, 5040.0, 5040.0), Sensor("FAN1 Duty", "ok", 90.0, "percent")],
            "fail",
            "3 of 4 fans turn: FAN1 without speed",
        ),
        (
            [*warm(23.0, 39.0), *FOUR[:2], Sensor("Fan 3", "ok", 30.0, "%"), Sensor("Fan 4", "ok", 0.0, "%")],
            "fail",
            "3 of 4",
        ),
        # A fan that stands still outweighs a sensor that says nothing, and both are told.
        ([*warm(23.0, 0.0), *fans(0.0)], "fail", "no temperature of Exhaust Temp; 0 of 4 fans turn"),
    ],
)
def test_air_through_a_host(expect, sensors, verdict, words):
    finding = judged(expect, *sensors)
    assert (finding.verdict, finding.action) == (verdict, "none" if verdict == "pass" else "investigate")
    assert words in finding.reason


def test_part_that_the_class_leaves_open_is_not_judged(expect):
    assert judged(expect, *fans(5040.0), outlet=None, rise_celsius=None, fans=1).verdict == "pass"
    assert judged(expect, *warm(23.0, 90.0), rise_celsius=None, fans=None).verdict == "pass"
    assert judged(expect, *warm(23.0, 19.0), rise_celsius=None, fans=None).verdict == "incomplete"


def test_nothing_is_owed_where_nothing_is_declared_and_no_answer_is_no_pass(expect):
    assert list(airflow.subjects(typed(expect))) == ["host"]
    assert airflow.decide({"ipmi_sdr": None, "redfish": None}, typed(expect)) == []
    for bmc in (None, {**expect["bmc"], "airflow": None}):
        assert list(airflow.subjects(typed({**expect, "bmc": bmc}))) == []


@pytest.mark.parametrize(
    ("airflow", "inlet", "why"),
    [
        ({"outlet": None, "rise_celsius": None, "fans": None}, {}, "airflow.fans: found nothing"),
        ({"outlet": None, "rise_celsius": 25, "fans": 4}, {}, "airflow.outlet: found nothing, expected a sensor"),
        ({"outlet": "Exhaust Temp", "rise_celsius": 25, "fans": 0}, {}, "airflow.fans: found 0"),
        ({"outlet": "Exhaust Temp", "rise_celsius": 25, "fans": 4}, {"inlet": None}, "inlet: found nothing"),
    ],
)
def test_class_that_would_judge_nothing_is_refused(expect, airflow, inlet, why):
    with pytest.raises(ReadError, match=why):
        typed({**expect, "bmc": {**expect["bmc"], "airflow": airflow, **inlet}})


@pytest.mark.parametrize(("probe", "name"), [(ipmi_sdr, "ipmi_sdr"), (redfish, "redfish")])
def test_healthy_host_passes_whichever_way_its_bmc_is_asked(expect, probe, name):
    value = probe.parse(Output((HEALTHY / f"{name}.txt").read_text()))
    (finding,) = airflow.decide({"ipmi_sdr": None, "redfish": None, name: value}, typed(expect))
    assert (finding.verdict, finding.measured, finding.unit) == ("pass", 16.0, "C above the inlet")


@pytest.mark.parametrize(
    ("speed", "verdict"),
    [
        ({"Reading": 45, "SpeedRPM": 5040}, "pass"),
        ({"Reading": 45}, "pass"),
        ({"Reading": 45, "SpeedRPM": 0}, "fail"),
        ({"Reading": 0}, "fail"),
        ({}, "incomplete"),
        (None, "incomplete"),
    ],
)
def test_fan_documents_of_a_thermal_subsystem(expect, speed, verdict):
    status = {"State": "Enabled", "Health": "OK"}
    fan = {"@odata.type": "#Fan.v1_5_0.Fan", "Name": "Fan 1", "Status": status, "SpeedPercent": speed}
    value = redfish.parse(Output(json.dumps(fan)))
    assert [sensor.state for sensor in value.sensors] == ["ok"]
    bmc = {**expect["bmc"], "airflow": {"outlet": None, "rise_celsius": None, "fans": 1}}
    (finding,) = airflow.decide({"ipmi_sdr": None, "redfish": value}, typed({**expect, "bmc": bmc}))
    assert finding.verdict == verdict


@pytest.mark.parametrize(
    ("file", "inlet", "declared", "said"),
    [
        (
            "dgxh100-chassis-thermal.json",
            "TEMP_AMBIENT",
            {"outlet": "TEMP_MB_OUTLET", "rise_celsius": 25, "fans": 36},
            "TEMP_AMBIENT 22 C, TEMP_MB_OUTLET 47 C; 36 fans turn, 4895 RPM in the middle",
        ),
        ("smc821ge-thermal.json", "Inlet Temp", {"outlet": None, "rise_celsius": None, "fans": 6}, "6 fans turn, "),
    ],
)
def test_real_hosts(expect, file, inlet, declared, said):
    path = RECORDED / "redfish" / file
    if not path.exists():
        pytest.skip(f"{file} is not there: it is read in place from the recordings beside the repository")
    bmc = {**expect["bmc"], "inlet": {"sensor": inlet, "limit_celsius": 37}, "airflow": declared}
    value = redfish.parse(Output(path.read_text()))
    (finding,) = airflow.decide({"ipmi_sdr": None, "redfish": value}, typed({**expect, "bmc": bmc}))
    assert finding.verdict == "pass" and finding.reason.startswith(said)
