"""nccl-tests: old and new columns, JSON; what was not checked, is cut or of others is told apart."""

from __future__ import annotations

import re

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collectives.collective_program import bus_factor
from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_tests import (
    Measurement,
    NcclTestsError,
    disagreement,
    fault_of,
    parse_nccl_tests,
)

from tests.nccl_tests_report import rank_line, report, row
from tests.recorded.judged import RECORDED

NEW = """# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
gpu-01:12:12 [0] NCCL INFO Launch mode Parallel
           8             2     float     sum      -1    22.84    0.00    0.00      0    24.38    0.00    0.00      0
 17179869184    4294967296     float     sum      -1    66132  259.78  487.09      0    66109  259.87  487.26      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 183.54
#
"""
OLD = """#   Rank  0 Pid 112424 on gpu-01 device  0 [0x0f] A100-SXM4-40GB
#   Rank  1 Pid 112425 on gpu-01 device  1 [0x15] A100-SXM4-40GB
#
#                                                     out-of-place                       in-place
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2   float     sum   2193.5    0.00    0.00  2e-07    132.2    0.00    0.00  2e-07
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 9.2
"""
# As src/util.cu of 2.17 writes it: numbers with six decimals, truths as text.
JSON = """{"version": 3, "config": {"nthreads": 1, "ngpus": 1, "devices": [
  {"rank": 0, "group": 0, "pid": 7, "hostname": "gpu-01", "device": 0, "device_hex": "0000:0f:00"},
  {"rank": 1, "group": 0, "pid": 8, "hostname": "gpu-01", "device": 1, "device_hex": "0000:2d:00"}]},
 "results": [
  {"size": 65536, "count": 16384, "type": "float", "redop": "sum", "root": "    -1",
   "out_of_place": {"time": 30.500000, "alg_bw": 2.148721, "bus_bw": 2.148721, "nwrong": 0.000000},
   "out_of_place_per_iter": {"p50_us": 30.000000, "p99_us": 41.250000},
   "in_place": {"time": 31.500000, "alg_bw": 2.080508, "bus_bw": 2.080508, "nwrong": 0.000000},
   "in_place_per_iter": {"p50_us": 30.000000, "p99_us": 40.000000},
   "actual_iterations": 20, "experiment_name": "AllReduce"}],
 "out_of_bounds": {"count": 0, "okay": "true"}, "average_bus_bandwidth": {"bandwidth": 2.11, "okay": "unchecked"}}
"""
GiB = 2**30
HOSTS = ["gpu-01", "gpu-02"]
GOOD = report(HOSTS, 8, {8: 68.52, GiB: 4484.9})


def rows(output: str) -> dict[int, Measurement]:
    return {row.size: row for row in parse_nccl_tests(output).rows}


def times(output: str) -> dict[int, tuple[int, int | None, int | None]]:
    return {size: (row.ns, row.wrong, row.ns_p99) for size, row in rows(output).items()}


def test_new_columns() -> None:
    assert times(NEW) == {8: (24380, 0, None), 17179869184: (66132000, 0, None)}


@pytest.mark.parametrize("prefix", ["0: ", "[1,0]<stdout>:"])
@pytest.mark.parametrize("output", [NEW, GOOD])
def test_what_a_launcher_puts_before_lines_is_no_part_of_them(prefix: str, output: str) -> None:
    assert parse_nccl_tests("".join(f"{prefix}{line}\n" for line in output.splitlines())) == parse_nccl_tests(output)


def test_old_columns() -> None:
    assert times(OLD) == {8: (2193500, 0, None)}
    assert fault_of(parse_nccl_tests(OLD), ["gpu-01"], 2) == ""


def test_old_columns_of_all_to_all_which_names_no_operation() -> None:
    assert times(OLD.replace("   sum", "      ")) == times(OLD)
    with pytest.raises(NcclTestsError, match="time is 'sum', expected a number"):
        parse_nccl_tests(OLD.replace("2e-07\n", "\n"))


def test_data_that_nobody_checked_is_not_right() -> None:
    assert rows(OLD.replace("2e-07", "  N/A"))[8].wrong is None
    assert rows(NEW.replace("      0    24", "    N/A    24"))[8].wrong is None


def test_wrong_elements_are_read_on_either_side_and_at_the_end() -> None:
    assert rows(NEW.replace("0.00      0    24.38", "0.00      6    24.38"))[8].wrong == 6
    assert rows(NEW.replace("0.00    0.00      0\n", "0.00    0.00  4e+07\n"))[8].wrong == 40_000_000
    said = NEW.replace("values : 0 OK", "values : 162 FAILED")
    assert [row.wrong for row in parse_nccl_tests(said).rows] == [162, 162]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("", "no header of columns"),
        ("gpu-01: Test NCCL failure common.cu:958 'unhandled cuda error'\n", "no header"),
        (NEW[: NEW.index("# Out")], "ends before 'Out of bounds values'"),
        (NEW[: NEW.index("gpu-01:12")], "no rows"),
        (NEW.replace("22.84", "  nan"), "time is 'nan'"),
        (NEW.replace("22.84", " 0.00").replace("24.38", " 0.00"), "a time of 0.00 us at 8 bytes"),
        (NEW.replace("#wrong", "       "), "expected time, algbw, busbw and #wrong"),
        (NEW.replace("busbw", "     "), "expected time, algbw, busbw and #wrong"),
        # What the CPU took to start them.
        (NEW.replace("   time", "cputime"), "expected time, algbw, busbw and #wrong"),
        (NEW.replace("gpu-01:12:12 [0] NCCL INFO Launch mode Parallel", "  ...   ...  ..."), "rows are left out"),
        ("           size    time   algbw   busbw\n   32_768   43.83    0.75    1.31\n", "no header"),
        ("{", "cannot be read"),
        ("[]{", "no header"),
        (re.sub(r"(?s)\[\s*{\"size\".*?}\],", "[],", JSON), "no results"),
        (JSON.replace('"out_of_bounds"', '"bounds"'), "cannot be read: KeyError 'out_of_bounds'"),
        (JSON.replace('"devices"', '"hosts"'), "cannot be read: KeyError 'devices'"),
        (JSON.replace("30.500000", "NaN"), "time is 'nan'"),
        (JSON + JSON, "cannot be read: JSONDecodeError"),
    ],
)
def test_anything_less_than_a_whole_report_is_an_error(output: str, message: str) -> None:
    with pytest.raises(NcclTestsError, match=message.replace("(", r"\(")):
        parse_nccl_tests(output)


def test_json_report_with_single_iterations() -> None:
    assert times(JSON) == {65536: (31500, 0, 41250)}
    assert fault_of(parse_nccl_tests(JSON), ["gpu-01"], 2) == ""
    assert rows(JSON.replace('"nwrong": 0.000000', '"nwrong": null'))[65536].wrong is None
    assert rows(JSON.replace('"count": 0, "okay": "true"', '"count": 3, "okay": "false"'))[65536].wrong == 3


def apart(hosts: list[str], each: int) -> str:
    """Return what a build without MPI prints, or one that finds no PMIx: every process thinks that it is alone."""
    return "".join(report([host], 1, {8: 1.02, GiB: 640.0}) for host in hosts for _ in range(each))


def without(text: str, line: str) -> str:
    return "".join(each for each in text.splitlines(True) if not each.startswith(line))


@pytest.mark.parametrize(
    ("output", "hosts", "each", "fault"),
    [
        (GOOD, HOSTS, 8, ""),
        # nccl-tests leaves the domain out.
        (GOOD, ["gpu-01.example.org", "gpu-02.example.org"], 8, ""),
        (GOOD, ["gpu-02", "gpu-01"], 8, ""),
        (report(HOSTS, 1, {GiB: 4484.9}), HOSTS, 1, ""),
        (
            apart(HOSTS, 8),
            HOSTS,
            8,
            "16 reports of one rank each, expected one of 16 ranks: "
            "nccl-tests was built without MPI, or its PMIx does not match srun's",
        ),
        (apart(["gpu-01"], 8), ["gpu-01"], 8, "8 reports of one rank each, expected one of 8 ranks: "),
        (report(["gpu-01"], 1, {GiB: 640.0}), HOSTS, 1, "1 ranks are named, expected 0 to 1, each once; missing: 1"),
        (GOOD + GOOD, HOSTS, 8, "2 reports of 32 ranks in all, expected one of 16 ranks"),
        # Of two reports one has lost its header, or its end.
        (GOOD + "# Out of bounds values : 0 OK\n", HOSTS, 8, "2 reports of 16 ranks in all"),
        (GOOD + GOOD[: GOOD.index("# Out")], HOSTS, 8, "2 reports of 32 ranks in all"),
        (NEW, HOSTS, 8, "0 ranks are named, expected 0 to 15, each once; missing: 0, 1, 2, 3 and 12 more"),
        (without(GOOD, "#  Rank  5"), HOSTS, 8, "15 ranks are named, expected 0 to 15, each once; missing: 5"),
        (
            GOOD.replace(rank_line(5, "gpu-01", 5), rank_line(4, "gpu-01", 5)),
            HOSTS,
            8,
            "16 ranks are named, expected 0 to 15, each once; missing: 5",
        ),
        (
            GOOD.replace(rank_line(5, "gpu-01", 5), rank_line(5, "gpu-01", 5, group=1)),
            HOSTS,
            8,
            "ranks of groups 0, 1, expected one group",
        ),
        (GOOD, ["gpu-01", "gpu-03"], 8, "ranks by host: gpu-02 8, expected 0, gpu-03 0, expected 8"),
        (
            GOOD.replace(rank_line(8, "gpu-02", 0), rank_line(8, "gpu-01", 0)),
            HOSTS,
            8,
            "ranks by host: gpu-01 9, expected 8, gpu-02 7, expected 8",
        ),
        (
            GOOD.replace(rank_line(9, "gpu-02", 1), rank_line(9, "gpu-02", 0)),
            HOSTS,
            8,
            "several ranks on device 0 [0000:10:00] of gpu-02, expected one",
        ),
        (
            GOOD.replace("# Out", f"{row(GiB, 16, 500.0)}\n# Out"),
            HOSTS,
            8,
            f"more than one row of {GiB} bytes",
        ),
        (GOOD.replace("# Out", f"{row(0, 16, 0.25)}\n{row(0, 16, 0.25)}\n# Out"), HOSTS, 8, ""),
    ],
)
def test_report_counts_for_a_group_if_it_is_one_of_all_its_ranks(
    output: str, hosts: list[str], each: int, fault: str
) -> None:
    found = fault_of(parse_nccl_tests(output), hosts, each)
    assert found.startswith(fault) if fault else found == ""


ROW = (
    "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n{}\n# Out of bounds values : 0 OK\n"
)
SLOW = "1073741824 268435456 float sum -1 {} {} {} 0 4484.9 239.41 448.90 0"


@pytest.mark.parametrize(
    ("time", "algbw", "busbw", "said"),
    [
        ("4484.9", "239.41", "448.90", ""),
        # As exact as it is printed: in whole microseconds, in tenths of GB/s, or none of it.
        ("4485", "239.41", "448.90", ""),
        ("4.5e+03", "239.41", "448.90", ""),
        ("4484.9", "239.4", "449", ""),
        ("4484.9", "239.42", "448.89", ""),
        ("4484.9", "239.43", "448.90", "algbw is 239.43 GB/s, expected 239.41 at a time of 4484.9 us"),
        ("4484.9", "239.41", "448.91", "busbw is 448.91 GB/s, expected 448.90 at a time of 4484.9 us"),
        ("4484.9", "239.41", "448.88", "busbw is 448.88 GB/s, expected 448.90 at a time of 4484.9 us"),
        # Of one rank, and of eight.
        ("4484.9", "239.41", "0.00", "busbw is 0.00 GB/s, expected 448.90 at a time of 4484.9 us"),
        ("4484.9", "239.41", "418.97", "busbw is 418.97 GB/s, expected 448.90 at a time of 4484.9 us"),
        ("448.4", "239.41", "448.90", "algbw is 239.41 GB/s, expected 2394.61 at a time of 448.4 us"),
    ],
)
def test_bandwidths_agree_with_size_and_time(time: str, algbw: str, busbw: str, said: str) -> None:
    read = rows(ROW.format(SLOW.format(time, algbw, busbw)))[GiB]
    assert disagreement(read, bus_factor("all_reduce", 16)) == said
    swapped = Measurement(read.size, read.sides[::-1])
    assert disagreement(swapped, bus_factor("all_reduce", 16)) == said


@pytest.mark.parametrize(("collective", "factor"), [("all_reduce", 2.0), ("all_gather", 1.0), ("all_to_all", 1.0)])
def test_bandwidths_of_small_and_large_sizes_agree(collective: str, factor: float) -> None:
    took = {8: 0.31, 64: 22.84, 65536: 99.995, 2**20: 100.04, 2**27: 9999.96, 2**34: 68652.4}
    for us in (1.0, 1.3, 0.7):
        output = report(HOSTS, 8, {size: each * us for size, each in took.items()}, factor)
        said = [disagreement(each, bus_factor(collective, 16)) for each in rows(output).values()]
        assert said == [""] * len(took)


def test_json_bandwidths_agree() -> None:
    assert disagreement(rows(JSON)[65536], bus_factor("all_reduce", 2)) == ""
    assert disagreement(rows(JSON)[65536], bus_factor("all_reduce", 3)).startswith(
        "busbw is 2.148721 GB/s, expected 2.86"
    )


def test_stand_in_is_laid_out_as_a_recorded_report() -> None:
    recorded = RECORDED / "nccl-tests/h100-2node-allreduce-ib-xe9680-full.txt"
    if not recorded.exists():
        pytest.skip(f"{recorded} is not here")

    def layout(text: str) -> list[str]:
        lines = [line.rstrip() for line in text.splitlines() if re.match(r"# (?!Avg)|\s*\d+\s+\d+ ", line)]
        return list(dict.fromkeys(re.sub(r"\[[\d:a-f]+\].*|\w", "x", line) for line in lines))

    hosts = sorted(set(re.findall(r" on\s+(\S+) device", recorded.read_text())))
    assert set(layout(report(hosts, 8, {8: 68.52, GiB: 4484.9, 16 * GiB: 68652.0}))) <= set(
        layout(recorded.read_text())
    )
