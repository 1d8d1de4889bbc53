"""The recorder: lines of nvidia-smi, what they are summed up to, and the files that keep them."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.gpu_load import gpu_telemetry_program as gpu_telemetry
from ansible_collections.muster.cluster.plugins.module_utils.gpu_load.gpu_telemetry_program import (
    FIELDS,
    Digest,
    Files,
    Sample,
    Sick,
    sample_of,
)

LINE = (
    "2026/07/14 08:12:53.353, 5, 00000000:1B:00.0, 631.95, 700.00, 59, 54, 1980, 2619, 100, 11, 5, 16, 0, 0, "
    "0x0000000000000004"
)


def with_cell(name: str, text: str) -> str:
    cells = LINE.split(", ")
    cells[FIELDS.index(name)] = text
    return ", ".join(cells)


def test_sample_of_a_loaded_gpu() -> None:
    sample = sample_of(LINE)
    assert sample is not None
    assert (sample.gpu, round(sample.at % 60, 3), sample.reasons) == ("0000:1b:00.0", 53.353, 4)
    assert (sample.quantities["power_watts"], sample.quantities["pcie_width"]) == (631.95, 16)
    assert sample.counters == {"ecc_corrected": 0, "ecc_uncorrected": 0}


def test_every_field_is_one_that_a_recorded_driver_tells(recorded) -> None:
    names, values = csv.reader(recorded("nvidia-smi/query-gpu-h100-idle.csv").splitlines(), skipinitialspace=True)
    told = {
        name.split(" [")[0]: value.rsplit(" ", 1)[0] if " [" in name else value
        for name, value in zip(names, values, strict=True)
    }
    # The output calls them by their new names, the tool takes the old ones as well.
    new = {
        "clocks.sm": "clocks.current.sm",
        "clocks.mem": "clocks.current.memory",
        "clocks_throttle_reasons.active": "clocks_event_reasons.active",
    }
    sample = sample_of(", ".join(told[new.get(field, field)] for field in FIELDS))
    assert sample is not None
    assert None not in {**sample.quantities, **sample.counters}.values()
    assert (sample.gpu, sample.quantities["power_watts"], sample.reasons) == ("0000:00:09.0", 69.85, 1)


@pytest.mark.parametrize(
    "text", ["[N/A]", "ERR!", "[Unknown Error]", "[Not Supported]", "", "nan", "1e3", "12 W", "inf"]
)
@pytest.mark.parametrize(
    "name", ["power.draw", "ecc.errors.corrected.volatile.total", "clocks_throttle_reasons.active"]
)
def test_single_cells_may_be_unknown(name: str, text: str) -> None:
    sample = sample_of(with_cell(name, text))
    assert sample is not None
    values = {**sample.quantities, **sample.counters, "reasons": sample.reasons}
    assert [key for key, value in values.items() if value is None] == [
        {"power.draw": "power_watts", "clocks_throttle_reasons.active": "reasons"}.get(name, "ecc_corrected")
    ]


@pytest.mark.parametrize(
    "line",
    [
        "",
        LINE[:-30],
        LINE + ", 5",
        with_cell("timestamp", "[N/A]"),
        with_cell("timestamp", "2026/13/14 08:12:53.353"),
        with_cell("pci.bus_id", "[Unknown Error]"),
        "Unable to determine the device handle for GPU0000:1B:00.0: Unknown Error",
        'Field "clocks_throttle_reasons.active" is not a valid field to query.',
        "\x00\ufffd" * 40,
    ],
)
def test_line_that_is_no_whole_sample_is_none(line: str) -> None:
    assert sample_of(line) is None


# As nvidia-smi prints it, and with a number among its words.
LOST = ", ".join([*LINE.split(", ")[:3], "[GPU is lost]", "32.73", *["[GPU is lost]"] * 11])


@pytest.mark.parametrize(
    "line",
    [LOST, *(with_cell(name, text) for name in ("power.draw", "clocks.sm") for text in gpu_telemetry.SICK)],
)
def test_row_with_one_such_cell_names_the_gpu_and_is_no_sample(line: str) -> None:
    sick = Sick()
    assert not sick.take(LINE) and not sick.take(with_cell("power.draw", "[N/A]")) and sick.named() == {}
    assert sick.take(line) and sick.take(with_cell("clocks.sm", "[GPU is lost]"))
    assert sick.named() == {"0000:1b:00.0": line[:200]}


def test_row_without_an_address_is_known_by_its_number() -> None:
    nameless = with_cell("pci.bus_id", "[GPU is lost]")
    sick = Sick()
    assert sick.take(nameless)
    assert sick.named() == {"GPU 5": nameless}
    # From a row before it, or behind it.
    assert not sick.take(LINE)
    assert sick.named() == {"0000:1b:00.0": nameless}


def test_row_without_an_address_is_of_no_gpu_that_a_later_nvidia_smi_gives_its_number() -> None:
    nameless = with_cell("pci.bus_id", "[GPU is lost]")
    sick = Sick()
    assert not sick.take(LINE) and sick.take(nameless)
    # It counts one GPU less.
    sick.start_over(1)
    assert not sick.take(with_cell("pci.bus_id", "00000000:2C:00.0"))
    assert sick.named() == {"0000:1b:00.0": nameless}
    sick = Sick()
    assert sick.take(nameless)
    sick.start_over(1)
    assert sick.take(nameless) and not sick.take(with_cell("pci.bus_id", "00000000:2C:00.0"))
    assert sick.named() == {"GPU 5 (before start 1)": nameless, "0000:2c:00.0": nameless}


@pytest.mark.parametrize("line", ["", "[GPU is lost]", LINE[:-30] + "[GPU is lost]", f"{LOST}, 5"])
def test_line_that_is_no_whole_row_names_nobody(line: str) -> None:
    sick = Sick()
    assert not sick.take(line) and sick.named() == {}


def sample(at: float, reasons: int | None = 0, **values: float | None) -> Sample:
    quantities = dict.fromkeys(gpu_telemetry.QUANTITIES, 1.0)
    counters = {name: values.pop(name, 0.0) for name in gpu_telemetry.COUNTERS}
    return Sample(at, "0000:1b:00.0", {**quantities, **values}, counters, reasons)


def test_digest_of_a_minute() -> None:
    digest = Digest()
    for second in range(60):
        digest.add(
            sample(100.0 + second, 0x44 if second < 3 else 0x4, power_watts=600 + second, ecc_corrected=second // 30),
            99.0,
        )
    found = digest.summary(161.5)
    assert found["quantities"]["power_watts"] == {"min": 600, "median": 629, "p95": 656, "max": 659}
    assert found["reasons_seconds"] == {"sw_power_cap": 60.0, "hw_thermal_slowdown": 3.0}
    assert found["counters"]["ecc_corrected"] == [0, 1, 1]
    assert (found["samples"], found["gap_seconds"], found["unknown"]) == (60, 2.5, {})


@pytest.mark.parametrize(
    ("times", "began", "finished", "gap"),
    [
        ((10, 11, 12), 10, 12, 1),
        ((10, 15, 16), 10, 16, 5),
        ((14, 15), 10, 15, 4),
        ((10, 11), 10, 20, 9),
        ((10, 7), 10, 7, 3),
    ],
)
def test_gap_counts_start_end_and_steps_back(times: tuple[int, ...], began: int, finished: int, gap: int) -> None:
    digest = Digest()
    for at in times:
        digest.add(sample(at), began)
    assert digest.summary(finished)["gap_seconds"] == gap


def test_unknown_values_and_reasons_are_counted() -> None:
    digest = Digest()
    digest.add(sample(1, None, power_watts=None, ecc_corrected=None), 0)
    digest.add(sample(2, 0x8000), 0)
    found = digest.summary(2)
    assert found["unknown"] == {"power_watts": 1, "ecc_corrected": 1, "reasons": 1}
    assert found["reasons_seconds"] == {"0x8000": 1.0}


def test_files_are_bounded_and_the_newest_stay(tmp_path: Path) -> None:
    (tmp_path / "gpu-20200101T000000-00.jsonl").write_text("old\n")
    (tmp_path / "other.txt").write_text("not ours\n")
    files = Files(str(tmp_path), keep=3, file_bytes=1000)
    for second in range(100):
        files.add(sample(1.8e9 + second))
    files.close()
    left = sorted(path.name for path in tmp_path.iterdir())
    assert len(left) == 4 and left[-1] == "other.txt" and "gpu-2020" not in left[0]
    assert all((tmp_path / name).stat().st_size <= 1000 for name in left[:3])
    header, *rows = (json.loads(line) for line in (tmp_path / left[2]).read_text().splitlines())
    assert rows[-1][header.index("at")] == 1.8e9 + 99
    assert {len(row) for row in rows} == {len(header)}


def test_one_file_may_be_kept(tmp_path: Path) -> None:
    for second in (0, 1, 2):
        files = Files(str(tmp_path), keep=1)
        files.add(sample(1.8e9 + second))
        files.close()
    assert [path.name for path in tmp_path.iterdir()] == ["gpu-20270115T080002-00.jsonl"]


def test_directory_that_cannot_be_written_is_told_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    files = Files(str(tmp_path / "file"), keep=1)
    files.add(sample(1.8e9))
    assert "Not a directory" in files.trouble or "File exists" in files.trouble


TOOL = """#!/bin/sh
case "$*" in
  *-lms*) {loop} ;;
  *) {query} ;;
esac
"""
XML = "<nvidia_smi_log><gpu id='00000000:1B:00.0'><pci><replay_counter>7</replay_counter></pci></gpu></nvidia_smi_log>"


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def write(loop: str, query: str = f'echo "{XML}"') -> None:
        tool = tmp_path / "bin" / "nvidia-smi"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(TOOL.format(loop=loop, query=query))
        tool.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return write


ROW = ", ".join(["$(TZ=UTC date +%Y/%m/%d\\ %H:%M:%S.000)", *LINE.split(", ")[1:]])


def test_record_follows_a_tool_that_never_ends(nvidia_smi, tmp_path: Path) -> None:
    nvidia_smi(f'while :; do echo "{ROW}"; sleep 0.1; done')
    found = gpu_telemetry.record(0.7, Files(str(tmp_path / "kept"), 2))
    gpu = found["gpus"]["0000:1b:00.0"]
    assert gpu["samples"] >= 3 and found["replays"] == {"0000:1b:00.0": [7, 7]}
    assert (found["restarts"], found["notes"], found["files_trouble"]) == (0, [], "")
    (kept,) = (tmp_path / "kept").iterdir()
    assert len(kept.read_text().splitlines()) == 1 + gpu["samples"]


def test_tool_that_ends_is_started_again_and_its_words_are_kept(nvidia_smi, tmp_path: Path) -> None:
    nvidia_smi("echo 'Unable to determine the device handle for GPU0000:1B:00.0: GPU is lost.' >&2; exit 15", "exit 15")
    found = gpu_telemetry.record(1.5, Files(str(tmp_path), 2))
    assert found["restarts"] >= 1 and found["gpus"] == {}
    assert set(found["notes"]) == {"Unable to determine the device handle for GPU0000:1B:00.0: GPU is lost."}
    assert found["replays"] == {} and found["replays_unread"]


def test_gpu_that_is_lost_in_the_last_second_is_told(nvidia_smi, tmp_path: Path) -> None:
    lost = ROW.replace("631.95", "[GPU is lost]")
    loop = f'for i in 1 2 3; do echo "{ROW}"; sleep 0.1; done; while :; do echo "{lost}"; sleep 0.1; done'
    nvidia_smi(loop)
    found = gpu_telemetry.record(0.9, Files(str(tmp_path / "kept"), 2))
    assert found["gpus"]["0000:1b:00.0"]["samples"] == 3 and found["gpus"]["0000:1b:00.0"]["unknown"] == {}
    assert "[GPU is lost]" in found["sick"]["0000:1b:00.0"] and found["notes"] == []


def test_gpu_is_named_by_the_nvidia_smi_that_lost_it(nvidia_smi, tmp_path: Path) -> None:
    lost = ROW.replace("00000000:1B:00.0", "[GPU is lost]")
    again = f'while :; do echo "{ROW.replace("1B", "2C")}"; sleep 0.1; done'
    begun = tmp_path / "begun"
    nvidia_smi(f'[ -e {begun} ] && {{ {again}; }}; touch {begun}; echo "{ROW}"; echo "{lost}"')
    found = gpu_telemetry.record(1.6, Files(str(tmp_path / "kept"), 2))
    assert list(found["sick"]) == ["0000:1b:00.0"] and found["gpus"]["0000:2c:00.0"]["samples"]


def test_time_after_nvidia_smi_was_given_up_is_a_gap(
    nvidia_smi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_telemetry, "RESTARTS", 0)
    nvidia_smi(f'echo "{ROW}"')
    found = gpu_telemetry.record(60, Files(str(tmp_path / "kept"), 2))
    assert 50 < found["gpus"]["0000:1b:00.0"]["gap_seconds"] < 70


def test_words_that_are_repeated_leave_room_for_others(nvidia_smi, tmp_path: Path) -> None:
    nvidia_smi("for i in $(seq 30); do echo WARNING; done; echo 'No devices were found'; exec sleep infinity")
    found = gpu_telemetry.record(0.5, Files(str(tmp_path), 2))
    assert found["notes"] == ["WARNING", "No devices were found"]


def test_tool_that_is_absent_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = gpu_telemetry.record(0.2, Files(str(tmp_path), 2))
    assert found["gpus"] == {} and "No such file" in found["notes"][0]


def test_tool_that_hangs_ends_with_the_time(nvidia_smi, tmp_path: Path) -> None:
    nvidia_smi("exec sleep infinity")
    assert gpu_telemetry.record(0.3, Files(str(tmp_path), 2))["gpus"] == {}


@pytest.mark.parametrize("arguments", [["--seconds=0"], ["--seconds=nan"], ["--seconds=1", "--files=0"]])
def test_wrong_arguments_are_refused(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        gpu_telemetry.main([f"--directory={tmp_path}", "--files=1", *arguments])
