"""Plans: what is refused by its key, and what asks less than something else."""

import sys
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_plan import (
    Plan,
    shortfall,
    steps_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.examination import registry
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import NoSettings
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import Positive, ReadError


@dataclass(frozen=True)
class DiagSettings:
    level: Positive


@pytest.fixture(autouse=True)
def stresses(monkeypatch):
    for name, exclusive in (("diag", True), ("gemm", False), ("disk", False)):
        settings = DiagSettings if name == "diag" else NoSettings
        module = SimpleNamespace(NAME=name, SETTINGS=settings, EXCLUSIVE=exclusive)
        monkeypatch.setitem(sys.modules, f"{registry.__package__.rpartition('.')[0]}.stress.{name}", module)


DIAG = {"limit_seconds": 900, "run": {"diag": {"level": 3}}}
LOAD = {"seconds": 600, "run": {"gemm": None, "disk": {}}}
WARM = {"reboot": "warm"}


def test_steps_come_back_as_they_are_written():
    steps = steps_of([DIAG, LOAD, {"seconds": 5}, WARM])
    assert [step.name for step in steps] == ["diag", "gemm, disk", "examine", "warm reboot"]
    assert steps_of([step.to_dict() for step in steps]) == steps


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (None, "steps: found nothing, expected a list of steps"),
        ([], "steps: found an empty list, expected a list of steps"),
        (["x"], r"steps\[0\]: found \"x\", expected a mapping"),
        ([{}], r"steps\[0\]: found keys , expected seconds, or run and limit_seconds, or reboot"),
        ([{"seconds": -1}], r"steps\[0\].seconds: found -1, expected a number above 0"),
        ([{"seconds": "4h"}], r'steps\[0\].seconds: found "4h"'),
        ([{"seconds": float("nan")}], r"steps\[0\].seconds: found NaN"),
        ([{"seconds": float("inf")}], r"steps\[0\].seconds: found Infinity"),
        ([{"limit_seconds": 5}], r"steps\[0\]: found keys limit_seconds, expected seconds, or run"),
        ([{**DIAG, "seconds": 5}], r"steps\[0\]: found keys limit_seconds, run, seconds"),
        ([{"seconds": 5, "run": {}}], r"steps\[0\].run: found an empty mapping"),
        ([{"seconds": 5, "run": {"furmark": {}}}], r'steps\[0\].run: found unknown stress "furmark", expected one of'),
        ([{"limit_seconds": 5, "run": {"diag": {}}}], r"steps\[0\].run.diag.level: found nothing"),
        ([{"limit_seconds": 5, "run": {"diag": {"level": 0}}}], r"steps\[0\].run.diag.level: found 0"),
        ([{"limit_seconds": 5, "run": {"diag": {"level": 1, "x": 2}}}], r'run.diag: found unknown key "x"'),
        ([{"limit_seconds": 5, "run": {"gemm": {}, "diag": {"level": 1}}}], r"found gemm, diag, expected diag alone"),
        ([{"reboot": "hard"}], r'steps\[0\].reboot: found "hard", expected warm or power_cycle'),
        ([{"reboot": "warm", "seconds": 5}], r"steps\[0\].reboot"),
        ([{"secs": 5}], r'steps\[0\]: found unknown key "secs"'),
    ],
)
def test_wrong_step_is_named_by_its_key(steps, message):
    with pytest.raises(ReadError, match=message):
        steps_of(steps)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"interval_seconds": 0}, "interval_seconds: found 0"),
        ({"interval_seconds": 0.01}, "interval_seconds: found 0.01, expected a number of at least 0.1"),
        ({"id": "../x"}, 'id: found "../x"'),
        ({"node": None}, "node: found nothing"),
        ({"stop_on_fail": "yes"}, 'stop_on_fail: found "yes"'),
        ({"expect": {}}, "expect.class: found nothing, expected text"),
        ({"extra": 1}, 'found unknown key "extra"'),
        ({"steps": [WARM]}, "allow_reboot: found false, expected true, as profile p has a planned warm reboot"),
    ],
)
def test_wrong_plan_is_named_by_its_key(expect, change, message):
    good = {"id": "1", "node": "n", "profile": "p", "steps": [LOAD], "interval_seconds": 1, "expect": expect}
    assert Plan.from_dict(good).stop_on_fail is True
    assert Plan.from_dict(good).duration_seconds == 600
    with pytest.raises(ReadError, match=message):
        Plan.from_dict({**good, **change})


def test_reboots_are_allowed_by_the_switch(expect):
    plan = {"id": "1", "node": "n", "profile": "p", "steps": [WARM], "interval_seconds": 1, "expect": expect}
    assert Plan.from_dict({**plan, "allow_reboot": True}).steps[0].reboot == "warm"


@pytest.mark.parametrize(
    ("done", "less"),
    [
        ([DIAG, LOAD, WARM], ""),
        ([DIAG, DIAG, {**LOAD, "seconds": 700}, WARM, WARM], ""),
        ([DIAG, {"seconds": 300, "run": LOAD["run"]}, {"seconds": 300, "run": LOAD["run"]}, WARM], ""),
        ([DIAG, {"seconds": 599, "run": LOAD["run"]}, WARM], "time in all: 599 of 600 s"),
        ([DIAG, {"seconds": 300, "run": LOAD["run"]}, {"seconds": 300}, WARM], "time of gemm, disk: 300 of 600 s"),
        ([DIAG, {"seconds": 600, "run": {"gemm": {}}}, WARM], "time of gemm, disk: 0 of 600 s"),
        (
            [DIAG, {"seconds": 600, "run": {"gemm": {}}}, {"seconds": 600, "run": {"disk": {}}}, WARM],
            "time of gemm, disk: 0 of 600 s",
        ),
        ([LOAD, WARM], "diag (level 3): 0 of 1 runs"),
        ([{**DIAG, "run": {"diag": {"level": 2}}}, LOAD, WARM], "diag (level 3): 0 of 1 runs"),
        ([{**DIAG, "run": {"diag": {"level": 4}}}, LOAD, WARM], ""),
        ([DIAG, LOAD], "warm reboots: 0 of 1"),
    ],
)
def test_shortfall_names_what_was_done_less(done, less):
    assert shortfall(steps_of(done), steps_of([DIAG, LOAD, WARM])) == less


def test_diagnostic_wanted_twice_is_not_done_by_one():
    assert shortfall(steps_of([DIAG, LOAD]), steps_of([DIAG, LOAD, DIAG])) == "diag (level 3): 1 of 2 runs"


def test_setting_that_is_no_number_has_to_be_the_same():
    watched = {"seconds": 60, "run": {"gpu_telemetry": {}}}
    idle = {"seconds": 60, "run": {"gpu_telemetry": {"under_load": False}}}
    assert shortfall(steps_of([idle]), steps_of([watched])) == "time of gpu_telemetry: 0 of 60 s"
    assert shortfall(steps_of([idle]), steps_of([idle])) == ""


@pytest.mark.parametrize("reboot", [[], {}, ["warm"], None, 1])
def test_reboot_that_is_no_text_is_an_error(reboot):
    with pytest.raises(ReadError, match="reboot"):
        steps_of([{"reboot": reboot}])


@pytest.mark.parametrize("key", ["seconds", "limit_seconds"])
def test_time_that_no_clock_counts_is_an_error(key):
    with pytest.raises(ReadError, match=f"{key}: found 1000"):
        steps_of([{key: 10**400, "run": {"gemm": {}}}])
