"""The plays that burn in, with real Ansible: in which order hosts start, and what is known of them afterwards."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger

from tests import warm_ansible
from tests.fleets import LEDGER_ID, small_fleet, variables_of

ROOT = Path(__file__).resolve().parents[3]
HERE = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
PLAYS = yaml.safe_load((ROOT / "playbooks/burn_in.yml").read_text(encoding="utf-8"))
NAMES = [f"gpu-{number:04}" for number in range(1, 7)]
PROFILE = {"burn_in_profile": "p", "burn_in_profiles": {"p": {"steps": [{"seconds": 60}], "interval_seconds": 5}}}
# Says that a run is under way, as it does once one was started.
TOOL = """#!/bin/sh
echo "$3" >> {place}/asked
echo '{{"status": "running", "id": "a", "node": "'$(cat {place}/node 2>/dev/null)'"}}'
"""


class Site:
    """Six nodes in three racks on two feeds, of which each feeds two at a time, with their ledger."""

    def __init__(self, place: Path) -> None:
        self.place = place
        block = {
            "name": "gpu-[0001-0006]",
            "hardware_class": "hgx_h100",
            "address": "10.1.16.1",
            "racks": {"name": "r[1-3]", "nodes_each": 2},
            "feeds": {"name": "[1-2]", "nodes_each": 4},
        }
        ramp = {"kilowatts": {"feed": 20}, "ramp_seconds": 0.2}
        fleet = small_fleet(
            6,
            nodes=[block],
            policy={"stages": ["preflight", "burn_in"], **PROFILE, "burn_in": ramp},
            hardware_classes={"hgx_h100": {"power": {"kilowatts": 10}}},
        )
        self.fleet = variables_of(fleet, f"sqlite:///{place}/ledger.sqlite")
        self.ledger = Ledger.create(self.fleet["ledger"]["url"], LEDGER_ID, fleet.cluster)
        for name in ("group_vars", "tasks"):
            (place / name).symlink_to(ROOT / "playbooks" / name)

    def run(self, target: str, *options: str, brought: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the plays, the job itself replaced by a line in a file; return what was seen."""
        (self.place / "started").unlink(missing_ok=True)
        first, second, third = json.loads(json.dumps(PLAYS))
        ramp = first["tasks"][-1]
        assert "muster.cluster.burn_in_ramp" in ramp
        ramp["muster.cluster.burn_in_ramp"] |= {"due": "{{ muster_alive }}"}
        job = second["tasks"][0]["block"][0]
        turn = {name: job["vars"][name] for name in ("burn_in_turn", "burn_in_due")}
        job.pop("ansible.builtin.import_role")
        job["vars"] = turn
        job["ansible.builtin.shell"] = (
            'echo \'{{ inventory_hostname }} {{ burn_in_due }}{{ " waits" if burn_in_turn.waits else "" }}\''
            f" >> {self.place}/started"
        )
        end = {
            "name": "Tell",
            "ansible.builtin.copy": {
                "dest": f"{self.place}/told.json",
                "content": "{{ {'turns': muster_burn_in.turns | default({}), 'hosts': ansible_play_hosts} | to_json }}",
            },
            "run_once": True,
            "check_mode": False,
        }
        third["tasks"] = [task for task in third["tasks"] if "rejudge" not in str(task)] + [end]
        (self.place / "play.yml").write_text(yaml.safe_dump([first, second, third], sort_keys=False))
        preflight = {"evidence": {}, "burn_in": []}
        hosts = {
            name: {**HERE, "muster_preflight": {**preflight, "burn_in": (brought or {}).get(name, [])}}
            for name in NAMES
        }
        inventory = {
            "all": {
                "hosts": {"localhost": HERE},
                "vars": {"muster_fleet": self.fleet, "muster_expect": {}, "muster_recorded": {}},
                "children": {"compute": {"hosts": hosts}},
            }
        }
        (self.place / "hosts.yml").write_text(yaml.safe_dump(inventory))
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
        environment["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / "collections")
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-f1", "-i", "hosts.yml", "play.yml"]
        done = warm_ansible.run([*command, "-e", f"target={target}", *options], cwd=self.place, env=environment)
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        started = self.place / "started"
        order = started.read_text().splitlines() if started.exists() else []
        return {**json.loads((self.place / "told.json").read_text()), "order": order, "said": said}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_run_in_which_every_node_was_lost_goes_on_to_its_end(site: Site) -> None:
    told = site.run("localhost")
    assert (told["order"], told["turns"], told["hosts"]) == ([], {}, ["localhost"])


def test_hosts_start_in_the_order_of_their_turns_and_those_that_wait_come_last(site: Site) -> None:
    told = site.run("compute")
    assert told["order"] == [
        *("gpu-0001 True", "gpu-0005 True", "gpu-0002 True", "gpu-0006 True"),
        *("gpu-0003 True waits", "gpu-0004 True waits"),
    ]
    assert told["hosts"] == [*NAMES, "localhost"]
    warning = "burn-in of 2 nodes of feed 1 is not started in this run: feed 1: 20 of 20 kW are in use by 2 nodes"
    assert warning in " ".join(told["said"].split())


def test_run_with_another_target_counts_what_a_run_before_it_has_started(site: Site) -> None:
    assert site.run("gpu-0001,gpu-0002")["order"] == ["gpu-0001 True", "gpu-0002 True"]
    told = site.run("gpu-0003,gpu-0004")
    assert told["order"] == ["gpu-0003 True waits", "gpu-0004 True waits"]
    # Nothing was promised to those that waited.
    with site.ledger.reading() as reader:
        assert reader.burn_in_shares(time.time()) == {"gpu-0001", "gpu-0002"}


def test_run_under_way_is_first_and_needs_no_share_of_its_own(site: Site) -> None:
    under_way = Evidence("a", "gpu-0004", "burn_in", time.time() - 60, None, "b", {}, "d").to_dict()
    told = site.run("compute", brought={"gpu-0004": [under_way]})
    assert told["order"][0] == "gpu-0004 True" and told["turns"]["gpu-0004"]["running"]
    assert [line for line in told["order"] if "waits" in line] == ["gpu-0002 True waits", "gpu-0003 True waits"]


def test_check_mode_promises_nothing(site: Site) -> None:
    site.run("gpu-0001,gpu-0002", "--check")
    with site.ledger.reading() as reader:
        assert reader.burn_in_shares(time.time()) == set()
