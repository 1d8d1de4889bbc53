"""Versions of rules: everything that judges has one, and evidence of another one is told."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import (
    CHECKS,
    STAGE_CHECKS,
    STRESS_CHECKS,
    STRESSES,
)
from ansible_collections.muster.cluster.plugins.module_utils.examination.rules import (
    STAGE_RULES,
    outdated,
    rules_of,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import STAGES


@pytest.mark.parametrize("module", [*CHECKS.values(), *STRESSES.values()], ids=lambda module: module.__name__)
def test_every_check_and_every_load_has_a_version(module):
    assert type(getattr(module, "RULES", None)) is int and module.RULES >= 1, f"{module.__name__}: RULES = 1 is missing"


def test_every_stage_is_judged_by_rules():
    assert set(STAGES) == {*STAGE_CHECKS, *STAGE_RULES} - {"prolog", "epilog"}
    for stage in (*STAGES, "prolog", "epilog"):
        assert rules_of(stage), stage
    assert set(rules_of("burn_in", STRESS_CHECKS)) == {
        *STAGE_CHECKS["burn_in"],
        *(check for checks in STRESS_CHECKS.values() for check in checks),
        *(f"load {name}" for name in STRESS_CHECKS),
        "burn_in",
    }


NOW = rules_of("burn_in", ["gpu_stress", "dcgm_diag"])


@pytest.mark.parametrize(
    ("change", "required", "told"),
    [
        ({}, ("xid", "gpu_stress"), ()),
        ({"xid": 0}, ("xid", "memory"), ("xid",)),
        # Nobody asks for it.
        ({"xid": 0}, ("memory",), ()),
        ({"gpu_stress": 0}, ("gpu_stress", "xid"), ("gpu_stress",)),
        ({"load gpu_stress": 0}, ("gpu_stress", "xid"), ("load gpu_stress",)),
        ({"load dcgm_diag": 0}, ("gpu_stress", "xid"), ()),
        ({"burn_in": 0}, ("xid",), ("burn_in",)),
        # Of a program that was newer than this one.
        ({"xid": 99}, ("xid",), ("xid",)),
    ],
)
def test_rule_of_another_version_is_named_if_it_is_needed(change, required, told):
    assert outdated({**NOW, **change}, "burn_in", required) == told


def test_evidence_without_versions_is_of_no_known_rules():
    assert outdated({}, "burn_in", ("xid", "nvme_speed")) == ("burn_in", "load nvme_read", "nvme_speed", "xid")
    for stage in ("fabric", "storage", "acceptance"):
        assert outdated({}, stage, ("rail_bandwidth",)) == (stage,)
        assert outdated(rules_of(stage), stage, ("rail_bandwidth",)) == ()
