"""nccl-tests: old and new columns, JSON; what was not checked or is cut is told apart from what is right."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_tests import (
    Measurement,
    NcclTestsError,
    parse_nccl_tests,
)

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
OLD = """#                                                     out-of-place                       in-place
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2   float     sum   2193.5    0.00    0.00  2e-07    132.2    0.00    0.00  2e-07
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 9.2
"""
REPORT: dict[str, Any] = {
    "results": [
        {
            **{"size": 65536, "count": 16384, "type": "float", "redop": "sum", "root": "    -1"},
            "out_of_place": {"time": 30.5, "alg_bw": 2.1, "bus_bw": 4.0, "nwrong": 0},
            "out_of_place_per_iter": {"p50_us": 30.0, "p99_us": 41.25},
            "in_place": {"time": 31.5, "alg_bw": 2.0, "bus_bw": 3.9, "nwrong": 0},
            "in_place_per_iter": {"p50_us": 30.0, "p99_us": 40.0},
        }
    ],
    "out_of_bounds": {"count": 0, "okay": True},
}


def test_new_columns() -> None:
    assert parse_nccl_tests(NEW) == {
        8: Measurement(8, 24380, 0),
        17179869184: Measurement(17179869184, 66132000, 0),
    }


@pytest.mark.parametrize("prefix", ["0: ", "[1,0]<stdout>:"])
def test_what_a_launcher_puts_before_lines_is_no_part_of_them(prefix: str) -> None:
    assert parse_nccl_tests("".join(f"{prefix}{line}\n" for line in NEW.splitlines())) == parse_nccl_tests(NEW)


def test_old_columns() -> None:
    assert parse_nccl_tests(OLD) == {8: Measurement(8, 2193500, 0)}


def test_data_that_nobody_checked_is_not_right() -> None:
    assert parse_nccl_tests(OLD.replace("2e-07", "  N/A"))[8].wrong is None
    assert parse_nccl_tests(NEW.replace("      0    24", "    N/A    24"))[8].wrong is None


def test_wrong_elements_are_read_on_either_side_and_at_the_end() -> None:
    assert parse_nccl_tests(NEW.replace("0.00      0    24.38", "0.00      6    24.38"))[8].wrong == 6
    assert parse_nccl_tests(NEW.replace("0.00    0.00      0\n", "0.00    0.00  4e+07\n"))[8].wrong == 40_000_000
    said = NEW.replace("values : 0 OK", "values : 162 FAILED")
    assert [row.wrong for row in parse_nccl_tests(said).values()] == [162, 162]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("", "no header of columns"),
        ("gpu-01: Test NCCL failure common.cu:958 'unhandled cuda error'\n", "no header"),
        (NEW[: NEW.index("# Out")], "ends before 'Out of bounds values'"),
        (NEW[: NEW.index("gpu-01:12")], "no rows"),
        (NEW.replace("22.84", "  nan"), "time is 'nan'"),
        (NEW.replace("22.84", " 0.00").replace("24.38", " 0.00"), "a time of 0 us"),
        (NEW.replace("#wrong", "       "), "expected time and #wrong"),
        (NEW.replace("gpu-01:12:12 [0] NCCL INFO Launch mode Parallel", "  ...   ...  ..."), "rows are left out"),
        ("           size    time   algbw   busbw\n   32_768   43.83    0.75    1.31\n", "no header"),
        ("{", "cannot be read"),
        ("[]{", "no header"),
        (json.dumps({**REPORT, "results": []}), "no results"),
        (json.dumps({"results": REPORT["results"]}), "cannot be read: KeyError 'out_of_bounds'"),
        (json.dumps(REPORT).replace("30.5", "NaN"), "time is 'nan'"),
    ],
)
def test_anything_less_than_a_whole_report_is_an_error(output: str, message: str) -> None:
    with pytest.raises(NcclTestsError, match=message.replace("(", r"\(")):
        parse_nccl_tests(output)


def test_json_report_with_single_iterations() -> None:
    assert parse_nccl_tests(json.dumps(REPORT)) == {65536: Measurement(65536, 31500, 0, 41250)}
    unchecked = json.loads(json.dumps(REPORT).replace('"nwrong": 0}, "in_place"', '"nwrong": null}, "in_place"'))
    unchecked["results"][0]["out_of_place"]["nwrong"] = None
    assert parse_nccl_tests(json.dumps(unchecked))[65536].wrong is None
    bad = {**REPORT, "out_of_bounds": {"count": 3, "okay": False}}
    assert parse_nccl_tests(json.dumps(bad))[65536].wrong == 3
