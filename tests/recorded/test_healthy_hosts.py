"""No healthy recorded host is turned away at the first try, and what is said of the others is right."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output

from .healthy_hosts import (
    HOSTS,
    NO_HOST,
    RecordedHost,
    Tried,
    figures_of,
    host_outputs,
    in_words,
    tried_hosts,
    tried_outputs,
    true_verdicts,
    turned_away,
    upper_bound,
)
from .judged import RECORDED, ROWS

needs_recordings = pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no recorded outputs at {RECORDED}")


@needs_recordings
@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_healthy_host_passes_at_the_first_try(host: RecordedHost) -> None:
    assert turned_away(host, host_outputs(host, RECORDED)) == ()


@needs_recordings
def test_every_healthy_recording_of_gpus_is_of_a_host_or_left_out_for_a_reason() -> None:
    truths = true_verdicts(RECORDED)
    tells = {row.file for row in ROWS if row.verdict == "pass" and row.probe in ("nvidia_smi", "lspci")}
    healthy = {file for file in tells if truths[file].lower().startswith("healthy")}
    of_hosts = {file for host in HOSTS for file, _ in host.parts}
    assert healthy - of_hosts == set(NO_HOST) and of_hosts & set(NO_HOST) == set()
    assert [file for file in of_hosts if not truths[file].lower().startswith("healthy")] == []


@needs_recordings
def test_missing_gpu_turns_a_host_away_by_name() -> None:
    host = HOSTS[1]
    sound = host_outputs(host, RECORDED)
    text = sound["nvidia_smi"].stdout
    sick = text.replace("<attached_gpus>8<", "<attached_gpus>9<")
    assert sick != text
    assert any(why.startswith("gpu_inventory ") for why in turned_away(host, {"nvidia_smi": Output(sick)}, sound))


@needs_recordings
def test_outputs_that_are_refused_are_those_known_to_be() -> None:
    assert [each.name for each in tried_outputs(RECORDED) if each.reasons] == []


@needs_recordings
def test_figures_count_hosts_and_outputs() -> None:
    found = figures_of(tried_hosts(RECORDED), tried_outputs(RECORDED))
    assert (found["healthy_rejected_first_try"]["value"], found["healthy_hosts"]["value"]) == (0, len(HOSTS))
    assert found["healthy_outputs"]["value"] > 60


# By the closed form 1 - 0.05 ** (1/n) for none, and for one and two by the sum of the binomial's first terms.
@pytest.mark.parametrize(
    ("rejected", "tried", "expected"),
    [(0, 1, 0.95), (0, 4, 0.5271), (0, 59, 0.0495), (0, 300, 0.00994), (1, 20, 0.2161), (2, 2, 1.0), (0, 0, 1.0)],
)
def test_upper_bound_is_exact(rejected: int, tried: int, expected: float) -> None:
    assert upper_bound(rejected, tried) == pytest.approx(expected, abs=5e-5)


def test_words_name_who_was_turned_away_and_what_few_hosts_say() -> None:
    none = in_words("hosts", [Tried("a", ()), Tried("b", ()), Tried("c", ())])
    assert none[0] == "0 of 3 healthy recorded hosts turned away at the first try."
    assert "at most 63.2% of healthy hosts" in none[1] and "3/3, says 100.0%" in none[1]
    one = in_words("hosts", [Tried("a", ("xid host: Xid 79",)), Tried("b", ())])
    assert one[0].startswith("1 of 2 ") and one[-1] == "TURNED AWAY a: xid host: Xid 79"
    assert in_words("hosts", []) == ["0 of 0 healthy recorded hosts turned away at the first try."]
