"""The NICs' counters before and after load."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.stress import nic_counters
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import NoSettings

from tests.typed import typed

FLAPS = "/sys/class/infiniband/mlx5_3/ports/1/counters/link_downed"


@pytest.fixture
def output(fake_host, expect, monkeypatch):
    """Both readings of a host whose link flaps between them."""
    waited = []

    def flap(seconds):
        waited.append(seconds)
        fake_host.outputs[FLAPS] = Output("2\n")

    monkeypatch.setattr(nic_counters.time, "sleep", flap)
    found = nic_counters.collect(fake_host, typed(expect), 7.5, NoSettings())
    assert waited == [7.5]
    return found


def test_both_readings_are_kept_apart(output):
    readings = nic_counters.parse(output)
    flaps = [of["mlx5_3"].ports[0].counters["link_downed"] for of in (readings.before, readings.after)]
    assert flaps == [0, 2] and len(readings.before) == len(readings.after) == 8
    assert readings.after["mlx5_0"].interfaces == {"rdma0": {"carrier_changes": 2, "rx_crc_errors": 0}}


def test_reading_that_is_missing_or_cut_off_is_unreadable(output):
    middle = output.stdout.index("==> after ")
    for text in ("", output.stdout[:-1], output.stdout[:middle], output.stdout[middle:], "nothing\n"):
        with pytest.raises(Unreadable):
            nic_counters.parse(Output(text))
