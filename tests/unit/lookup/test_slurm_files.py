import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.muster.cluster.plugins.lookup.slurm_files import LookupModule
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

from tests.unit.plugin_utils.slurm.clusters import site, variables_of

LAB = "inventory/lab/lab.fleet.yml"


def lab() -> dict[str, object]:
    fleet = Fleet.load(LAB)
    return {**fleet.variables(), "nodes": fleet.node_variables()}


def test_one_list_of_files_with_name_and_content() -> None:
    (files,) = LookupModule().run([lab()])
    assert [file["name"] for file in files] == ["slurm.conf", "cgroup.conf", "gres.conf", "topology.conf"]
    assert files[0]["content"].splitlines()[1] == "ClusterName=lab"


def test_fault_of_the_declaration_is_the_error() -> None:
    fleet = lab()
    fleet["scheduler"] = {**fleet["scheduler"], "version": "21.08"}  # type: ignore[dict-item]
    with pytest.raises(AnsibleLookupError, match=r'slurm_files: muster_fleet: scheduler.version: found "21.08"'):
        LookupModule().run([fleet])


def test_class_of_whose_processors_nobody_tells_is_the_error() -> None:
    """Slurm takes such a node for one processor, and starts no round of eight ranks there."""
    with pytest.raises(AnsibleLookupError, match=r"node_parameters\.hgx_h100: found no processors, expected CPUs, or"):
        LookupModule().run([variables_of(site())])
    counted = {"node_parameters": {"hgx_h100": {"CPUs": 192}}}
    assert "CPUs=192" in LookupModule().run([variables_of(site(counted))])[0][0]["content"]
    assert LookupModule().run([variables_of(site({"managed": False}))])


@pytest.mark.parametrize("terms", [[], ["lab"], [{}], [{}, {}]])
def test_anything_but_one_fleet_is_an_error(terms: list[object]) -> None:
    with pytest.raises(AnsibleLookupError, match=r"slurm_files: .*expected"):
        LookupModule().run(terms)
