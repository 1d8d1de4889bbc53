"""Loads on drives, CPUs and memory: what they run, what they read of it, and what that makes of the host."""

import json
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import cpu_stress as cpu_check
from ansible_collections.muster.cluster.plugins.module_utils.checks import memory_bandwidth as memory_check
from ansible_collections.muster.cluster.plugins.module_utils.checks import nvme_speed
from ansible_collections.muster.cluster.plugins.module_utils.host.blocks import joined
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.stress import cpu_stress, memory_bandwidth, nvme_read
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import NoSettings

from tests.contracts.table import refuse_unknown
from tests.typed import typed

HEALTHY = Path(__file__).resolve().parents[3] / "healthy"
READS = (HEALTHY / "nvme_read.txt").read_text()
CPU = (HEALTHY / "cpu_stress.txt").read_text()
STREAM = (HEALTHY / "memory_bandwidth.txt").read_text()


class Loaded:
    """Plays back one output for every command, and remembers the commands."""

    def __init__(self, host, output):
        self.host, self.output, self.runs = host, output, []

    def run(self, argv, timeout_seconds):
        refuse_unknown(argv)
        self.runs.append((list(argv), timeout_seconds))
        return self.output

    def read(self, path):
        return self.host.read(path)

    def paths(self, *patterns):
        return self.host.paths(*patterns)


# --- fio ---------------------------------------------------------------------------------------------------------


def test_raw_drives_are_read_one_after_the_other_and_never_written(fake_host, expect):
    host = Loaded(fake_host, Output("{}"))
    nvme_read.collect(host, typed(expect), 160, NoSettings())
    assert [argv[3] for argv, _ in host.runs] == [f"--filename=/dev/nvme{number}n1" for number in range(8)]
    for argv, limit in host.runs:
        assert "--readonly" in argv and "--rw=randread" in argv and "--runtime=19" in argv and limit == 79
        assert not [word for word in argv if "unlink" in word or "size" in word]


def test_file_is_written_only_where_the_class_names_a_directory(fake_host, expect):
    expect["nvme_read"]["file"] = {"directory": "/scratch", "size_mib": 64}
    host = Loaded(fake_host, Output("{}"))
    output = nvme_read.collect(host, typed(expect), 30, NoSettings())
    ((argv, _),) = host.runs
    assert {"--filename=/scratch/muster-nvme-read", "--size=64M", "--unlink=1"} <= set(argv)
    assert list(nvme_read.parse(output)) == list(nvme_speed.subjects(typed(expect))) == ["nvme /scratch"]


def fio(change=None, rc=0, text=None):
    job = {"error": 0, "read": {"iops": 1000.5, "total_ios": 2000, "runtime": 2000}}
    if change:
        (job["read"] if next(iter(change)) in job["read"] else job).update(change)
    text = json.dumps({"jobs": [job]}) if text is None else text
    return nvme_read.parse(joined({"nvme 1": Output(text, "said", rc)}))["nvme 1"]


def test_recorded_fio_report(recorded):
    read = fio(text=recorded("fio/fio-nvme-randrw-4k.json"))
    assert read == nvme_read.Reads(85138.890741, 2554337, 30.002)


@pytest.mark.parametrize(
    "text",
    [
        'fio: this platform does not support process shared mutexes\n{"jobs": []}',
        'note: x\n{"jobs": [{"error": 0}]}',
        "{",
    ],
)
def test_report_without_a_job_is_none(text):
    assert "no whole report" in fio(text=text)


def test_notes_of_fio_before_the_report_are_passed_over():
    good = json.dumps({"jobs": [{"error": 0, "read": {"iops": 5.0, "total_ios": 5, "runtime": 1000}}]}, indent=1)
    assert fio(text=f"fio: note {{with a brace\n{good}") == nvme_read.Reads(5.0, 5, 1.0)


@pytest.mark.parametrize(
    ("change", "rc", "why"),
    [
        ({"error": 5}, 1, "fio error 5 (Input/output error), exit status 1: said"),
        ({"error": 5}, 0, "fio error 5 (Input/output error), exit status 0"),
        ({"total_err": 12, "first_error": 61}, 0, "fio error 61"),
        ({}, 1, "fio error none, exit status 1"),
        ({"total_ios": 0}, 0, "no read came to its end"),
        ({"runtime": 0}, 0, "no read came to its end"),
        ({"iops": 0}, 0, "no read came to its end"),
        ({"iops": float("nan")}, 0, "no whole report"),
        ({"iops": "N/A"}, 0, "no whole report"),
        ({"iops": -1}, 0, "no whole report"),
    ],
)
def test_reading_that_failed_says_why(change, rc, why):
    assert why in fio(change, rc)


def test_text_without_headings_is_unreadable():
    for parse in (nvme_read.parse, memory_bandwidth.parse):
        for text in ("", "{}", "=="):
            with pytest.raises(Unreadable):
                parse(Output(text))


def speeds(expect, *kiops, **own):
    expect["nvme"]["count"] = len(kiops)
    expect["nvme_read"].update(own)
    answers = {
        f"nvme {number}": value if isinstance(value, str) else nvme_read.Reads(value * 1000, 10, 1.0)
        for number, value in enumerate(kiops, 1)
    }
    return [finding.verdict for finding in nvme_speed.decide({"nvme_read": answers}, typed(expect))]


def test_healthy_drives_pass(expect):
    values = {"nvme_read": nvme_read.parse(Output(READS))}
    assert [finding.verdict for finding in nvme_speed.decide(values, typed(expect))] == ["pass"] * 8


@pytest.mark.parametrize(
    ("kiops", "own", "verdicts"),
    [
        ((100, 100, 90), {}, ["pass"] * 3),
        ((100, 100, 89.9), {}, ["pass", "pass", "fail"]),
        # All drives slow: only the class floor shows it.
        ((50, 50, 50), {"kiops": 100}, ["fail"] * 3),
        ((90, 90, 90), {"kiops": 100}, ["pass"] * 3),
        ((89.9, 90, 90), {"kiops": 100}, ["fail", "pass", "pass"]),
        ((100, 100), {}, ["incomplete"] * 2),
        ((100, 100), {"kiops": 100}, ["pass"] * 2),
        ((100, 100, 100, "no read came to its end"), {}, ["pass"] * 3 + ["incomplete"]),
        ((100, 100, 100, "fio error 5, exit status 1: Input/output error"), {}, ["pass"] * 3 + ["fail"]),
        ((100, 100, 100, "fio error 13, exit status 1: Permission denied"), {}, ["pass"] * 3 + ["incomplete"]),
    ],
)
def test_drive_against_class_and_peers(expect, kiops, own, verdicts):
    assert speeds(expect, *kiops, **own) == verdicts


# --- stress-ng ---------------------------------------------------------------------------------------------------


def test_memory_head_room_is_left(fake_host, expect):
    fake_host.outputs["/proc/meminfo"] = Output("MemTotal: 2048000 kB\nMemAvailable:    1024000 kB\n")
    host = Loaded(fake_host, Output("", "stress-ng: info:  [1] successful run completed in 1.00s\n"))
    output = cpu_stress.collect(host, typed(expect), 60, NoSettings())
    ((argv, limit),) = host.runs
    assert argv[argv.index("--vm-bytes") + 1] == "600M" and "--verify" in argv and limit > 60
    # What stress-ng prints to standard error is kept, which is where older versions print everything.
    assert cpu_stress.parse(output).successful


def test_host_that_does_not_say_how_much_memory_is_available_is_not_loaded(fake_host, expect):
    fake_host.outputs["/proc/meminfo"] = Output("MemTotal: 2048000 kB\n")
    host = Loaded(fake_host, Output(""))
    assert cpu_stress.collect(host, typed(expect), 60, NoSettings()).rc is None and not host.runs


def with_gpu_memory(fake_host, expect, node):
    """Return a host of Grace with 1000 MiB free, of which 400 are of a GPU, and that it was asked."""
    expect["numa"] = {**expect["numa"], "gpu_memory_nodes": 1}
    nodes = "/sys/devices/system/node/node"
    fake_host.outputs |= {
        "/proc/meminfo": Output("MemTotal: 2048000 kB\nMemAvailable: 1024000 kB\n"),
        f"{nodes}2/cpulist": Output("\n"),
        f"{nodes}2/meminfo": node,
    }
    host = Loaded(fake_host, Output(CPU))
    return host, cpu_stress.collect(host, typed(expect), 60, NoSettings())


def test_memory_of_gpus_is_left_to_them(fake_host, expect):
    host, _ = with_gpu_memory(fake_host, expect, Output("Node 2 MemTotal: 409600 kB\nNode 2 MemFree: 409600 kB\n"))
    ((command, _),) = host.runs
    assert command[command.index("--vm-bytes") + 1] == "360M"


def test_host_that_does_not_tell_what_memory_is_the_gpus_is_not_loaded(fake_host, expect):
    host, output = with_gpu_memory(fake_host, expect, Output("Node 2 MemTotal: 409600 kB\n"))
    assert output.rc is None and not host.runs


def judged(text, expect, rc=0):
    values = {"cpu_stress": cpu_stress.parse(joined({"stress-ng": Output(text, rc=rc)}))}
    return [(finding.verdict, finding.action) for finding in cpu_check.decide(values, typed(expect))]


GOOD = "".join(CPU.splitlines(keepends=True)[1:])
PASS, FAIL, OPEN = ("pass", "none"), ("fail", "investigate"), ("incomplete", "investigate")
BAD = GOOD.replace("successful run", "unsuccessful run")


@pytest.mark.parametrize(
    ("text", "rc", "expected"),
    [
        (GOOD, 0, [PASS, PASS]),
        # 0.17 and later.
        (GOOD.replace("stress-ng: ", "stress-ng: 23:25:48.41 "), 0, [PASS, PASS]),
        ("stress-ng: fail:  [7] stress-ng-vm: detected 19 bit errors while stressing memory\n" + BAD, 2, [PASS, FAIL]),
        ("stress-ng: fail:  [7] vm: detected 19 bit errors\n" + GOOD, 0, [PASS, FAIL]),
        ("stress-ng: fail:  [7] cpu: matrixprod error detected\n" + BAD, 2, [FAIL, PASS]),
        ("stress-ng: fail:  [7] metrics-check: stressor metrics corrupted\n" + BAD, 2, [FAIL, FAIL]),
        (BAD, 2, [FAIL, FAIL]),
        (BAD, 3, [OPEN, OPEN]),
        (GOOD, 7, [OPEN, OPEN]),
        # stress-ng counts a stressor that did nothing as a success.
        (GOOD.replace("918273645", "0        "), 0, [PASS, OPEN]),
        ("stress-ng: info:  [7] skipped: 1: vm (1)\n" + GOOD, 0, [PASS, OPEN]),
        ("".join(line for line in GOOD.splitlines(keepends=True) if "] vm " not in line), 0, [PASS, OPEN]),
    ],
)
def test_cpu_and_memory(expect, text, rc, expected):
    assert judged(text, expect, rc) == expected


@pytest.mark.parametrize(
    "output",
    [
        Output(""),
        Output(GOOD[:-1]),
        Output("".join(GOOD.splitlines(keepends=True)[:-1])),
        Output("stress-ng: unrecognized option\n", rc=1),
        Output(CPU.splitlines()[0] + "\n"),
    ],
)
def test_run_without_an_end_is_unreadable(output):
    with pytest.raises(Unreadable):
        cpu_stress.parse(output)


def test_each_numa_node_is_loaded_on_its_own_cpus(fake_host, expect):
    for node, cpus in enumerate(("0-47,96-143", "48-95,144-191")):
        fake_host.outputs[f"/sys/devices/system/node/node{node}/cpulist"] = Output(f"{cpus}\n")
    host = Loaded(fake_host, Output(""))
    memory_bandwidth.collect(host, typed(expect), 60, NoSettings())
    assert [argv[2:5] for argv, _ in host.runs] == [
        ["96", "--taskset", "0-47,96-143"],
        ["96", "--taskset", "48-95,144-191"],
    ]


def test_numa_node_without_cpus_is_said_of_that_node(fake_host, expect):
    missing = Output(rc=None, error="cpulist: No such file or directory")
    fake_host.outputs["/sys/devices/system/node/node0/cpulist"] = missing
    fake_host.outputs["/sys/devices/system/node/node1/cpulist"] = Output("many\n")
    rates = memory_bandwidth.parse(
        memory_bandwidth.collect(Loaded(fake_host, Output("")), typed(expect), 60, NoSettings())
    )
    assert "No such file" in rates["numa 0"] and "'many'" in rates["numa 1"]


def test_rates_of_all_workers_add_up():
    assert memory_bandwidth.parse(Output(STREAM)) == {"numa 0": 48.006, "numa 1": 47.606}


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("(instance 3)", "(instance x)", "3 of 4 workers"),
        ("dispatching hogs", "dispatching", "4 of an unknown number of workers"),
        ("successful run", "unsuccessful run", "stress-ng ends with status 0"),
        ("memory rate", "run duration too short to determine memory rate", "0 of 4 workers"),
        ("info:  [3101] successful", "info:  [3101] x", "no end of the run"),
    ],
)
def test_numa_node_without_a_whole_rate_says_why(old, new, why):
    assert why in memory_bandwidth.parse(Output(STREAM.replace(old, new)))["numa 0"]


def test_rate_in_the_words_of_an_older_version():
    text = STREAM.replace("stream: memory", "stress-ng-stream: memory").replace(" MB read/sec, ", " MB/sec, ")
    assert memory_bandwidth.parse(Output(text))["numa 1"] == 47.606


@pytest.mark.parametrize(
    ("rates", "floor", "verdicts"),
    [
        ((100.0, 90.0), None, ["pass", "pass"]),
        ((100.0, 89.9), None, ["pass", "fail"]),
        ((100.0, 100.0), 100, ["pass", "pass"]),
        ((99.9, 99.9), 100, ["fail", "fail"]),
        ((100.0, "too short"), None, ["incomplete", "incomplete"]),
        ((100.0, "too short"), 100, ["pass", "incomplete"]),
    ],
)
def test_memory_bandwidth(expect, rates, floor, verdicts):
    expect["memory_bandwidth"]["read_gb_per_s"] = floor
    values = {"memory_bandwidth": {f"numa {number}": rate for number, rate in enumerate(rates)}}
    assert [finding.verdict for finding in memory_check.decide(values, typed(expect))] == verdicts


def test_class_without_these_loads_owes_nothing(expect):
    expect.update(nvme_read=None, cpu_stress=None, memory_bandwidth=None)
    assert [list(check.subjects(typed(expect))) for check in (nvme_speed, cpu_check, memory_check)] == [
        [],
        [],
        [],
    ]
