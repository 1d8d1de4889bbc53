"""What an output means decides: nothing sick passes, nothing that is only odd fails."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import STAGE_CHECKS, STRESS_CHECKS

from . import gpu_fields, host_fields, log_lines, nic_fields
from .field_meaning import Case
from .meaning_cases import all_cases, wrong

# All of them take two minutes of one core: `make bench` judges them.
EVERY = 20
PIECES = 10

# What has no field of its own here, and why.
NO_FIELD = {
    "fingerprint": "it judges nothing",
    "log_continuity": "it compares with what the last health run read",
    "gpu_retired_pages": "GPUs from before Ampere only",
    "nvlink_subnet_manager": "its outputs are yes or no",
    "nccl_version": "a version that must be one of those installed",
    "pytorch": "versions that must be those declared",
    "perftest": "options that a program has or has not",
    "acs": "bits of one register in lspci",
    "pcie_links": "links that must be those of the devices that a class names",
}


@pytest.mark.parametrize("piece", range(PIECES))
def test_verdict_follows_from_what_the_output_means(piece: int) -> None:
    sample = itertools.islice(all_cases(), piece * EVERY, None, EVERY * PIECES)
    assert [said for said in map(wrong, sample) if said] == []


def test_each_case_has_a_name_of_its_own_and_something_that_may_follow() -> None:
    names = [case.name for case in all_cases()]
    assert len(names) > 15_000
    assert all(case.allowed for case in all_cases())


def test_every_check_has_a_field_a_part_or_a_line() -> None:
    asked = {name for names in (*STAGE_CHECKS.values(), *STRESS_CHECKS.values()) for name in names}
    tables = (gpu_fields, nic_fields, host_fields)
    rows = [row for table in tables for row in (*table.FIELDS, *table.PARTS, *table.TOLD)]
    judged = {check for row in (*rows, *log_lines.TOLD) for check in row.checks}
    assert asked - judged <= {*NO_FIELD}


def test_a_wrong_verdict_is_told_with_the_case() -> None:
    case = Case("a dead link", "nvlink", ("gpu_nvlink",), "", frozenset({"pass"}))
    assert wrong(case).startswith("a dead link: incomplete, expected pass")
