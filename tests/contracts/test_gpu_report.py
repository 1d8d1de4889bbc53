"""What the real nvidia-smi prints on the lab's library, held against what real H100s printed: the same fields, alike.

Of a field neither the number nor the word counts, but what kind of text it is, and of how many digits: a library that
gave watts for milliwatts would show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.formats.nvidia_smi_report import Node, known, read

from tests.contracts.gpus import Smi
from tests.recorded.judged import RECORDED

_POWER = ("gpu_power_readings", "gpu_memory_power_readings", "module_power_readings")
_AVERAGE = {f"{at}/{name}_power_draw" for at in _POWER for name in ("average", "instant")}
_PLATFORM = ("chassis_serial_number", "slot_number", "tray_index", "host_id", "peer_type", "module_id")
_WAITING = ("channel_repair_pending", "tpc_repair_pending", "unrepairable_memory")
_COUNTERS = "clocks_event_reasons_counters"


@dataclass(frozen=True)
class Pair:
    """A branch of nvidia-smi, and what the nearest one printed of an H100.

    ``gone`` are the fields that only that one has, ``new`` those that only ours has.
    """

    branch: str
    file: str
    argv: tuple[str, ...]
    gone: frozenset[str] = frozenset()
    new: frozenset[str] = frozenset()


PAIRS = [
    Pair("535", "q-h100x8-one-gpu-sw-thermal-535.183.01.txt", ("-q",)),
    Pair(
        "550",
        "qx-h100x8-570.86.15.xml",
        ("-q", "-x"),
        frozenset(
            {
                *("platforminfo", *(f"platforminfo/{name}" for name in _PLATFORM)),
                *("gpu_recovery_action", "dram_encryption_mode", "power_smoothing", "power_profiles"),
                *(f"dram_encryption_mode/{name}_dram_encryption" for name in ("current", "pending")),
                *(f"power_profiles/power_profile_{name}_profiles" for name in ("requested", "enforced")),
                *(f"{at}/power_draw" for at in _POWER),
                *(f"fabric/health/{name}" for name in ("route_recovery_in_progress", "route_unhealthy")),
                *("fabric/health/access_timeout_recovery", "capabilities", "capabilities/egm"),
            }
        ),
        frozenset({"gpu_module_id", *_AVERAGE}),
    ),
    Pair(
        "580",
        "qx-h100x8-570.86.15.xml",
        ("-q", "-x"),
        frozenset(
            {
                *("gpu_reset_status", "gpu_reset_status/reset_required"),
                *("gpu_reset_status/drain_and_reset_recommended", "voltage", "voltage/graphics_volt"),
                *(f"{at}/power_draw" for at in _POWER),
            }
        ),
        frozenset(
            {
                *("display_attached", "pdi", "platforminfo/gpu_fabric_guid", _COUNTERS),
                *(f"{_COUNTERS}/{_COUNTERS}_{name}" for name in ("sw_power_cap", "sync_boost", "sw_therm_slowdown")),
                *(f"{_COUNTERS}/{_COUNTERS}_{name}" for name in ("hw_therm_slowdown", "hw_power_brake")),
                *(f"ecc_errors/{name}" for name in _WAITING),
                *("remapped_rows/remapped_row_corr_inactive", "remapped_rows/remapped_row_unc_inactive"),
                *_AVERAGE,
                *(f"fabric/health/{name}" for name in ("summary", "incorrect_configuration", "partition_assigned")),
            }
        ),
    ),
    Pair(
        "580",
        "q-h100-idle-590.48.01.txt",
        ("-q",),
        frozenset({"edpp_multiplier"}),
        frozenset(
            {
                *("remapped_rows/inactive_correctable_error", "remapped_rows/inactive_uncorrectable_error"),
                "fabric/health/partition_assigned",
            }
        ),
    ),
]
# What the library does not tell, and Muster does not read: by the last words of the path.
NOT_TOLD = {
    *("gpu_part_number", "gpu_pdi", "latest_timestamp", "latest_duration", "c2c_mode", "gpu_c2c_mode", "egm"),
    *("atomic_caps_outbound", "atomic_caps_inbound", "addressing_mode", "voltage/graphics"),
    *(f"{at}_stats/{name}" for at in ("encoder", "fbc") for name in ("average_fps", "average_latency")),
    *(f"{at}_stats/{name}" for at in ("encoder", "fbc") for name in ("session_count", "active_sessions")),
    *(f"{_COUNTERS}/{name}" for name in ("sw_power_capping", "sync_boost", "sw_thermal_slowdown")),
    *(f"{_COUNTERS}/{name}" for name in ("hw_thermal_slowdown", "hw_power_braking")),
    # Driver 580 calls it deprecated.
    "display_mode",
}
# Lists, as long as they are.
LISTS = ("supported_clocks", "processes", "accounted_processes")
_QUANTITY = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?) [A-Za-z/%]+")
WORDS = (("yes", "no"), ("enabled", "disabled"), ("active", "not active"), ("none", "pass-through"))


def fields(nodes: list[Node], above: str = "") -> Iterator[tuple[str, str | None]]:
    """Yield the path and the text of each field in the order of the report."""
    for node in nodes:
        path = f"{above}{node.name}"
        yield path, node.text
        if node.name not in LISTS:
            yield from fields(node.children, f"{path}/")


def alike(one: str, other: str) -> bool:
    """Whether two texts are of one kind; of two quantities none may be 500 times the other, unless one is 0."""
    if kind(one) != kind(other):
        return False
    sizes = [abs(float(found[1])) for text in (one, other) if (found := _QUANTITY.fullmatch(text))]
    return len(sizes) < 2 or not all(sizes) or max(sizes) < 500 * min(sizes)


def kind(text: str) -> str:
    """Return what kind of text a value is: a number and its unit, one of two words, or itself without its digits."""
    for words in WORDS:
        if text.lower() in words:
            return " or ".join(words)
    return re.sub(r"[0-9A-Fa-f]{4,}|[0-9A-Fa-f]*[0-9][0-9A-Fa-f]*", "#", text)


Fields = dict[str, str | None]


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair.branch} {pair.file}")
def told(request: pytest.FixtureRequest, smi: Smi) -> tuple[Pair, Fields, Fields]:
    """What a recorded GPU tells, and what one of ours does."""
    pair = request.param
    if pair.branch != smi.branch:
        pytest.skip(f"this is nvidia-smi {smi.branch}")
    if not RECORDED.is_dir():
        pytest.skip(f"no recorded outputs at {RECORDED}")
    printed = smi.run(["nvidia-smi", *pair.argv], 30).stdout
    texts = ((RECORDED / "nvidia-smi" / pair.file).read_text(encoding="utf-8"), printed)
    theirs, ours = (dict(fields(read(text)[1][0].children)) for text in texts)
    return pair, theirs, ours


def test_fields_are_those_of_a_real_gpu(told: tuple[Pair, Fields, Fields]) -> None:
    pair, theirs, ours = told
    assert (set(theirs) - set(ours), set(ours) - set(theirs)) == (pair.gone, pair.new)
    # Since driver 570 the one stands before the other.
    both = [path for path in theirs if path in ours and path != "pci/atomic_caps_inbound"]
    assert both == [path for path in ours if path in theirs and path != "pci/atomic_caps_inbound"]


def test_values_are_of_the_kind_that_a_real_gpu_has(told: tuple[Pair, Fields, Fields]) -> None:
    _, theirs, ours = told
    common = {path for path in theirs if path in ours and known(theirs[path]) is not None}
    silent = {path for path in common if known(ours[path]) is None}
    assert {path for path in silent if not path.endswith(tuple(NOT_TOLD))} == set()
    pairs = {path: (str(theirs[path]), str(ours[path])) for path in common - silent}
    assert len(pairs) > 120
    assert {path: pair for path, pair in pairs.items() if not alike(*pair)} == {}
