import pytest
import yaml
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet import slurm_versions as versions
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.slurm_versions import has_key, lacking, releases


def test_releases_are_listed_oldest_first() -> None:
    assert releases() == ("22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11")


@pytest.mark.parametrize(
    ("file", "key", "value", "first", "last"),
    [
        ("slurm.conf", "PrologTimeout", 60, "25.05", "25.11"),
        ("slurm.conf", "RoutePlugin", "route/topology", "22.05", "23.02"),
        ("slurm.conf", "TopologyPlugin", "topology/block", "23.11", "25.11"),
        ("slurm.conf", "HealthCheckNodeState", "NONDRAINED_IDLE,CYCLE", "23.02", "25.11"),
        ("slurm.conf", "HealthCheckNodeState", "START_ONLY", "25.11", "25.11"),
        ("slurm.conf", "SlurmctldParameters", "enable_configless,rl_log_freq=60", "23.11", "25.11"),
        ("slurm.conf", "SelectType", "select/cons_res", "22.05", "23.02"),
        ("cgroup.conf", "CgroupAutomount", "yes", "22.05", "23.02"),
        ("topology.conf", "BlockSizes", None, "24.05", "25.11"),
        ("partition", "ExclusiveTopo", "YES", "24.05", "25.11"),
        ("slurm.conf", "SlurmdTimeout", 300, "22.05", "25.11"),
    ],
)
def test_release_lacks_what_came_later_or_went(file: str, key: str, value: object, first: str, last: str) -> None:
    known = releases()
    having = [release for release in known if not lacking(release, file, key, value)]
    assert having == list(known[known.index(first) : known.index(last) + 1])


def test_no_known_release_has_what_came_after_them() -> None:
    assert not any(has_key(release, "slurm.conf", "HealthCheckTimeout") for release in releases())


def test_case_does_not_matter_and_the_reason_is_said() -> None:
    assert lacking("22.05", "slurm.conf", "PROLOGTIMEOUT", 1) == (
        "none, as Slurm 22.05 has no key PrologTimeout (it came with 25.05)"
    )
    assert lacking("24.05", "slurm.conf", "selecttype", "SELECT/CONS_RES") == (
        "other values, as SelectType of Slurm 24.05 has no select/cons_res (23.02 was the last that had it)"
    )


def test_data_names_known_releases_only() -> None:
    data = yaml.safe_load(versions._DATA.read_text())
    keyed = [span for keys in data["keys"].values() for span in keys.values()]
    valued = [span for keys in data["values"].values() for members in keys.values() for span in members.values()]
    for span in keyed + valued:
        assert set(span) <= {"since", "until", "by"} and set(span) & {"since", "until"}
        assert {value for key, value in span.items() if key != "by"} <= {*releases(), "later"}
        assert span.get("by", "slurmctld") == "slurmctld"
    assert not any("by" in span for span in keyed)
    assert set(data["daemons_only"]) <= {*data["keys"], *data["values"]}
