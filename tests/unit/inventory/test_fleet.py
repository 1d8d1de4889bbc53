import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger

from tests import warm_ansible

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
LAB = ROOT / "inventory" / "lab" / "lab.fleet.yml"
PLAIN = Path(__file__).parent / "plain" / "hosts.yml"
LEDGER_ID = "6f1d7a52-9b0e-4c58-8f3e-2d5c1b7a9e04"
# A lab that was used has states in its ledger.
VALUES = (
    "{'address': ansible_host, 'fleet': muster_fleet, 'expect': muster_expect | default(none), "
    "'node': muster_node, 'groups': group_names | reject('match', 'state_') | list}"
)


def ansible(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    argv = [str(BIN / command[0]), *command[1:]]
    if command[0] not in warm_ansible.COMMANDS:
        return subprocess.run(argv, cwd=ROOT, text=True, capture_output=True, check=False, timeout=120)
    return warm_ansible.run(argv, cwd=ROOT, env={**os.environ, **environment})


def listed(path: Path) -> dict[str, Any]:
    run = ansible("ansible-inventory", "-i", str(path), "--list")
    assert run.returncode == 0, run.stderr
    data: dict[str, Any] = json.loads(run.stdout)
    return data


def changed_lab(tmp_path: Path, old: str, new: str) -> Path:
    text = LAB.read_text()
    assert old in text
    path = tmp_path / "site.fleet.yml"
    path.write_text(text.replace(old, new))
    return path


def variables_of(inventory: Path, tmp_path: Path) -> dict[str, Any]:
    """Return what a play sees on each host, templates filled in."""
    out = tmp_path / inventory.stem
    out.mkdir()
    play = tmp_path / "play.yml"
    task = {
        "ansible.builtin.copy": {
            "content": f"{{{{ {VALUES} | to_json }}}}",
            "dest": f"{out}/{{{{ inventory_hostname }}}}",
        }
    }
    play.write_text(json.dumps([{"hosts": "all", "connection": "local", "gather_facts": False, "tasks": [task]}]))
    # Here no host is anything but this machine, where whoever runs the tests need not be root.
    here = ["-e", f"ansible_python_interpreter={sys.executable}", "-e", "ansible_become=false"]
    run = ansible("ansible-playbook", "-i", str(inventory), *here, str(play))
    assert run.returncode == 0, run.stdout + run.stderr
    return {path.name: json.loads(path.read_text()) for path in out.iterdir()}


def test_groups_are_class_pod_rack_and_role() -> None:
    data = listed(LAB)
    assert data["controller"]["hosts"] == ["ctl"]
    assert data["compute"]["hosts"] == data["class_lab_h100"]["hosts"] == ["gpu-01", "gpu-02", "gpu-03", "gpu-04"]
    assert data["pod_p1"]["hosts"] == data["compute"]["hosts"]
    assert (data["rack_r1"]["hosts"], data["rack_r2"]["hosts"]) == (["gpu-01", "gpu-02"], ["gpu-03", "gpu-04"])


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """The plain inventory with what is long: class and profiles that come with Muster, rails, fabric."""
    inventory = yaml.safe_load(PLAIN.read_text())
    fleet = inventory["all"]["vars"]["muster_fleet"]
    declared = Fleet.load(LAB)
    fleet["classes"]["lab_h100"] = dict(declared.variables()["classes"]["lab_h100"])
    fleet["fabric"] = declared.fabric.to_dict()
    for name, node in declared.node_variables().items():
        fleet["nodes"][name]["rails"] = node["rails"]
    shipped = declared.policy.to_dict()
    fleet["policy"]["burn_in_profiles"] = {**shipped["burn_in_profiles"], **fleet["policy"]["burn_in_profiles"]}
    fleet["policy"]["latency_profile"] = None
    fleet["policy"]["latency_profiles"] = shipped["latency_profiles"]
    path = tmp_path / "plain.yml"
    fleet["ledger"]["url"] = fleet["ledger"]["url"].replace("inventory_dir", f"'{PLAIN.parent}'")
    path.write_text(yaml.safe_dump(inventory))
    return path


def test_plain_yaml_inventory_gives_the_same_variables_and_groups(plain: Path, tmp_path: Path) -> None:
    variables = variables_of(plain, tmp_path)
    assert variables == variables_of(LAB, tmp_path)
    assert set(variables) == {"ctl", "gpu-01", "gpu-02", "gpu-03", "gpu-04"}


def test_another_inventory_before_the_fleet_file_changes_nothing(tmp_path: Path) -> None:
    first = tmp_path / "first.yml"
    first.write_text("all: {vars: {site: '{{ inventory_hostname }}'}}\n")
    play = tmp_path / "play.yml"
    task = {"ansible.builtin.debug": {"msg": "{{ muster_fleet.nodes.keys() | join(' ') }}"}}
    play.write_text(json.dumps([{"hosts": "gpu-01", "gather_facts": False, "tasks": [task]}]))
    run = ansible("ansible-playbook", "-i", str(first), "-i", str(LAB), str(play))
    assert "ctl gpu-01 gpu-02 gpu-03 gpu-04" in run.stdout, run.stdout + run.stderr


def test_state_groups_come_from_the_ledger(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.sqlite"
    path = changed_lab(tmp_path, "sqlite:///../../build/lab/ledger.sqlite", url)
    assert not [group for group in listed(path) if group.startswith("state_")]
    with Ledger.create(url, LEDGER_ID, "lab").writing() as writer:
        writer.declare({"gpu-01": "lab_h100", "gpu-02": "lab_h100"}, now=1.0)
    assert listed(path)["state_new"]["hosts"] == ["gpu-01", "gpu-02"]


def test_compose_groups_and_keyed_groups_see_a_nodes_fields(tmp_path: Path) -> None:
    more = """
compose: {rack_number: "rack | default('', true) | replace('r', '')"}
groups: {second_rack: rack == 'r2'}
keyed_groups: [{key: pod, prefix: zone}]
fabric:"""
    data = listed(changed_lab(tmp_path, "\nfabric:", more))
    assert data["second_rack"]["hosts"] == ["gpu-03", "gpu-04"]
    assert data["zone_p1"]["hosts"] == data["compute"]["hosts"]
    assert data["_meta"]["hostvars"]["gpu-03"]["rack_number"] == "2"


def test_strict_makes_a_wrong_expression_fail(tmp_path: Path) -> None:
    path = changed_lab(tmp_path, "\nfabric:", "\nstrict: true\ncompose: {a: no_such_thing}\nfabric:")
    run = ansible("ansible-inventory", "-i", str(path), "--list")
    assert run.returncode == 1
    assert run.stderr.startswith(f"[ERROR]: {path}: Could not set a for host ctl: ")
    assert "no_such_thing" in run.stderr


def test_expressions_of_the_wrong_type_fail(tmp_path: Path) -> None:
    path = changed_lab(tmp_path, "\nfabric:", "\ncompose: 5\nfabric:")
    run = ansible("ansible-inventory", "-i", str(path), "--list")
    assert run.returncode == 1
    assert run.stderr.startswith(f"[ERROR]: {path}: ")
    assert "compose" in run.stderr


def test_extra_vars_reach_expressions_when_asked(tmp_path: Path) -> None:
    path = changed_lab(tmp_path, "\nfabric:", "\nuse_extra_vars: true\ncompose: {hall: building}\nfabric:")
    run = ansible("ansible-inventory", "-i", str(path), "--host", "gpu-01", "-e", "building=b7")
    assert json.loads(run.stdout)["hall"] == "b7"


@pytest.mark.parametrize("config", ["ansible.cfg", "defaults.cfg"])
def test_faulty_file_is_one_error_and_nothing_runs(tmp_path: Path, config: str) -> None:
    path = changed_lab(tmp_path, "hardware_class: lab_h100", "hardware_class: hgx_h1000")
    play = tmp_path / "play.yml"
    touch = {"ansible.builtin.copy": {"content": "", "dest": str(tmp_path / "touched")}}
    play.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [touch]}]))
    (tmp_path / "defaults.cfg").write_text(f"[defaults]\ncollections_path = {ROOT}/collections\n")
    chosen = ROOT / config if config == "ansible.cfg" else tmp_path / config
    run = ansible("ansible-playbook", "-i", str(path), str(play), ANSIBLE_CONFIG=str(chosen))
    assert run.returncode == 1
    assert run.stderr.strip() == (
        f'[ERROR]: {path}: nodes[0].hardware_class: found "hgx_h1000", '
        "expected one of dgx_h100, dgx_h200, gb200_nvl72, grand_teton_h100, "
        "hgx_b200, hgx_h100, hgx_h200, lab_h100, xe9680_h100"
    )
    assert run.stdout == ""
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize("text", ["", "plugin: [\n", "- a\n", "all: {hosts: {gpu-01: {}}}\n"])
def test_fleet_file_is_not_offered_to_other_inventory_plugins(tmp_path: Path, text: str) -> None:
    path = tmp_path / "site.fleet.yml"
    path.write_text(text)
    run = ansible("ansible", "all", "-i", str(tmp_path), "-m", "ping")
    assert run.returncode == 1
    assert run.stderr.count("\n") == 1
    assert run.stderr.startswith(f"[ERROR]: {path}: ")


def test_faulty_plain_inventory_is_found_by_fleet_check(plain: Path, tmp_path: Path) -> None:
    play = tmp_path / "play.yml"
    check = {"muster.cluster.fleet_check": {"fleet": "{{ muster_fleet }}", "name": "hosts.yml"}}
    play.write_text(json.dumps([{"hosts": "controller", "gather_facts": False, "tasks": [check]}]))
    good = ansible("ansible-playbook", "-i", str(plain), str(play), "--check")
    assert good.returncode == 0, good.stdout + good.stderr
    faulty = tmp_path / "hosts.yml"
    faulty.write_text(plain.read_text().replace("rack: r1", "rack: r2", 1).replace("pod: p1", "pod: p2", 1))
    bad = ansible("ansible-playbook", "-i", str(faulty), str(play))
    assert bad.returncode == 2
    assert 'hosts.yml: nodes: found rack "r2" in pods "p2" and "p1", expected each rack in one pod' in bad.stdout


def test_documentation_renders() -> None:
    run = ansible("ansible-doc", "-t", "inventory", "muster.cluster.fleet", "--json")
    assert run.returncode == 0, run.stderr
    doc = json.loads(run.stdout)["muster.cluster.fleet"]
    assert {"cluster", "nodes", "policy", "keyed_groups"} <= set(doc["doc"]["options"])


def test_documented_example_is_a_fleet_of_3072_hosts(tmp_path: Path) -> None:
    run = ansible("ansible-doc", "-t", "inventory", "muster.cluster.fleet", "--json")
    path = tmp_path / "site.fleet.yml"
    path.write_text(json.loads(run.stdout)["muster.cluster.fleet"]["examples"])
    run = ansible("ansible-inventory", "-i", str(path), "--graph", "zone_pod_8")
    assert run.stdout.count("gpu-") == 384, run.stderr
