"""The recorder's summary, and what cannot be taken for one."""

import json
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.stress import gpu_telemetry

from tests.contracts.table import refuse_unknown
from tests.typed import typed

HEALTHY = Path(__file__).resolve().parents[3] / "healthy" / "gpu_telemetry.json"


@pytest.fixture
def summary():
    return json.loads(HEALTHY.read_text(encoding="utf-8"))


def parsed(summary):
    return gpu_telemetry.parse(Output(json.dumps(summary)))


def test_healthy_summary(summary):
    found = parsed(summary)
    assert (found.seconds, found.under_load, len(found.gpus), found.lost) == (600, True, 8, {})
    gpu = found.gpus["0000:8b:00.0"]
    assert gpu.quantities["power_watts"].p95 == 699
    assert gpu.counters["ecc_corrected"] == (0, 0, 0) and gpu.replays == (0, 0)


@pytest.mark.parametrize(
    ("settings", "loaded"), [({}, True), ({"under_load": True}, True), ({"under_load": False}, False)]
)
def test_collect(expect, settings, loaded):
    class Recorder:
        def run(self, argv, timeout_seconds):
            refuse_unknown(argv)
            self.argv, self.timeout = list(argv), timeout_seconds
            return Output()

    host = Recorder()
    gpu_telemetry.collect(host, typed(expect), 60, gpu_telemetry.Settings(**settings))
    assert host.argv[:5] == [
        "/usr/libexec/muster/muster",
        "gpu-telemetry",
        "--seconds=60",
        "--directory=/var/lib/muster/telemetry",
        "--files=16",
    ]
    assert ("--under-load" in host.argv) is loaded
    assert 60 + 120 < host.timeout < 60 + 600


def test_class_without_telemetry_runs_nothing(expect):
    expect["telemetry"] = None
    assert "null" in gpu_telemetry.collect(None, typed(expect), 1, gpu_telemetry.Settings()).error


@pytest.mark.parametrize(
    ("note", "address"),
    [
        ("Unable to determine the device handle for GPU0000:8B:00.0: GPU is lost.  Reboot the system", "0000:8b:00.0"),
        ("Unable to determine the device handle for GPU 0000:8B:00.0: Unknown Error", "0000:8b:00.0"),
        ("Unable to determine the device handle for gpu 00000000:8B:00.0: Unknown Error", "0000:8b:00.0"),
        ('Field "x" is not a valid field to query.', None),
    ],
)
def test_lost_gpus_are_named(summary, note, address):
    summary["notes"] = [note]
    assert list(parsed(summary).lost) == ([address] if address else [])


def test_gpus_whose_rows_said_it_are_lost_with_and_without_their_addresses(summary):
    summary["sick"] = {"0000:8b:00.0": "a row", "GPU 5": "another"}
    found = parsed(summary)
    assert (found.lost, found.nameless) == ({"0000:8b:00.0": "a row"}, ("another",))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", 2),
        ("sick", []),
        ("sick", {"0000:8b:00.0": None}),
        ("seconds", None),
        ("under_load", None),
        ("notes", "none"),
        ("notes", [1]),
        ("gpus", []),
        ("replays", None),
        ("gpus.0000:8b:00.0", None),
        ("gpus.0000:8b:00.0.samples", -1),
        ("gpus.0000:8b:00.0.gap_seconds", float("nan")),
        ("gpus.0000:8b:00.0.unknown", None),
        ("gpus.0000:8b:00.0.reasons_seconds", {"hw_slowdown": "long"}),
        ("gpus.0000:8b:00.0.counters.ecc_corrected", [0, 1]),
        ("gpus.0000:8b:00.0.counters.ecc_corrected", [0, 1, "2"]),
        ("gpus.0000:8b:00.0.quantities.power_watts.p95", None),
        ("gpus.0000:8b:00.0.quantities.power_watts.median", 9999),
        ("replays.0000:8b:00.0", [1]),
    ],
)
def test_field_of_another_kind_is_unreadable(summary, key, value):
    place = summary
    # The address has dots of its own.
    path = key.replace("0000:8b:00.0", "GPU").split(".")
    for name in path[:-1]:
        place = place["0000:8b:00.0" if name == "GPU" else name]
    place["0000:8b:00.0" if path[-1] == "GPU" else path[-1]] = value
    with pytest.raises(Unreadable):
        parsed(summary)


@pytest.mark.parametrize(
    "change", [lambda t: "", lambda t: t[: len(t) // 2], lambda t: t[:-3], lambda t: "[]", lambda t: t + t]
)
def test_damaged_summary_is_unreadable(change):
    with pytest.raises(Unreadable):
        gpu_telemetry.parse(Output(change(HEALTHY.read_text(encoding="utf-8"))))


def test_exit_status_is_told():
    with pytest.raises(Unreadable, match="exit status 1: OSError"):
        gpu_telemetry.parse(Output("", "Traceback\nOSError: no space\n", 1))
