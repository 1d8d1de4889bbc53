"""Measures stage storage on the container lab: its cost beyond the I/O, its writer beside fio, tasks of its role.

The hosts are those of inventory/lab without their faults, on a network of their own; their tier is the directory that
all of them share. fio writes to the same file system in the same run, turn by turn with the writer.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

LAB = Path(__file__).resolve().parents[2] / "molecule" / "lab"
sys.path.insert(0, str(LAB))

import demo  # noqa: E402
import lab  # noqa: E402
import yaml  # noqa: E402
from ansible_collections.muster.cluster.plugins.module_utils.save_test.storage_shard import Shape, Shard  # noqa: E402
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence  # noqa: E402
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger import Ledger  # noqa: E402
from lab_inventory import read_inventory  # noqa: E402
from lab_tasks import counting, tasks_per_node  # noqa: E402

from tests.figures import file_of, write_figures  # noqa: E402

# As deep as inventory/lab, whose variables find the lab's key from there.
INVENTORY = demo.ROOT / "build" / "bench_storage"
SHARED = lab.BUILD / "shared"
MOUNT = "/checkpoints"
NETWORK, OWN_NETWORK = "10.77.0.", "10.77.7."
# Four ranks, one on each host, with 64 MiB each: seconds on two cores, and more than any cache between holds back.
MODEL = {"parameters": 4 * 64 * 2**20 // 14, "ranks": 4}
# A shard of 70e9 parameters over 1,825 ranks; fio with the blocks and the queue that storage is usually accepted with.
WRITER_BYTES = 512 * 2**20
WRITER_TURNS = 5
FIO = ("--rw=write", "--bs=1M", "--ioengine=libaio", "--iodepth=16", "--direct=1", "--end_fsync=1", "--fallocate=none")
# Limits that hosts on one disk pass: they are not what is measured here.
LIMITS = {
    "write_gb_per_s": (0.001, "GB/s"),
    "read_gb_per_s": (0.001, "GB/s"),
    "metadata_p99_ms": (10000, "ms"),
    "slowest_over_median": (20, "times"),
}


def main() -> int:
    """Measure everything and write it down."""
    file = file_of(__doc__)
    os.chdir(demo.ROOT)
    demo.must(demo.call([sys.executable, LAB / "lab.py", "down"]), "lab.py down")
    SHARED.mkdir(parents=True)
    # Everybody may write there, as in the root of a tier that the role makes.
    SHARED.chmod(0o1777)
    write_inventory()
    demo.must(demo.call([sys.executable, LAB / "lab.py", "--inventory", INVENTORY, "up"]), "lab.py up")
    write_figures({**stage_figures(), **writer_figures()}, file)
    return 0


def write_inventory() -> None:
    """Write the lab's fleet with a tier and a checkpoint, and without rails and faults."""
    shutil.rmtree(INVENTORY, ignore_errors=True)
    (INVENTORY / "group_vars").mkdir(parents=True)
    source = demo.ROOT / demo.INVENTORY
    fleet = yaml.safe_load((source / "lab.fleet.yml").read_text(encoding="utf-8").replace(NETWORK, OWN_NETWORK))
    for block in fleet["nodes"]:
        del block["rails"]
    fleet["fabric"] = {"kind": "ethernet", "socket_interface": "eth0"}
    fleet["storage"] = {
        "tiers": [{"name": "checkpoints", "kind": "existing", "path": MOUNT, "filesystem": filesystem()}],
        "checkpoint": {"tier": "checkpoints", "model": MODEL, "target_seconds": 600},
    }
    limits = {key: {"value": value, "unit": unit, "source": "the bench"} for key, (value, unit) in LIMITS.items()}
    fleet["hardware_classes"] = {"lab_h100": {"storage": limits}}
    fleet["policy"]["stages"] = ["preflight", "storage"]
    (INVENTORY / "bench.fleet.yml").write_text(yaml.safe_dump(fleet, sort_keys=False), encoding="utf-8")
    variables = yaml.safe_load(
        (source / "group_vars" / "all.yml").read_text(encoding="utf-8").replace(NETWORK, OWN_NETWORK)
    )
    variables |= {"lab_shared": MOUNT, "storage_test_environment": variables["acceptance_environment"]}
    (INVENTORY / "group_vars" / "all.yml").write_text(yaml.safe_dump(variables), encoding="utf-8")


def filesystem() -> str:
    """Return the type of the file system that the shared directory lies on, which the hosts see as theirs."""
    done = subprocess.run(["findmnt", "-no", "FSTYPE", "-T", SHARED], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def stage_figures() -> dict[str, dict[str, Any]]:
    """Return what the stage takes beyond its I/O, from its begin to its evidence, and the tasks of the storage role."""
    fleet = read_inventory(str(INVENTORY))["_meta"]["hostvars"]["gpu-01"]["muster_fleet"]
    nodes = [name for name, node in fleet["nodes"].items() if node["role"] == "compute"]
    run("ledger_create.yml")
    counts = demo.ROOT / "build" / "bench_storage_tasks.json"
    run("provision.yml", **counting(counts))
    tasks = tasks_per_node(json.loads(counts.read_text(encoding="utf-8")), nodes)
    run("examine.yml")
    run("prove.yml")
    with Ledger.open(fleet["ledger"]["url"], fleet["ledger"]["id"], read_only=True).reading() as ledger:
        found = ledger.records(("storage",), nodes)
    overheads = [overhead_seconds(record.evidence) for node in nodes for record in found[node]]
    if len(overheads) != len(nodes):
        raise demo.DemoError(f"stage storage left {len(overheads)} records, expected {len(nodes)}")
    return {
        "storage_overhead_seconds": {
            "value": round(max(overheads), 1),
            "unit": "s from begin to evidence less the I/O",
        },
        "storage_tasks_per_node": {"value": tasks["checkpoint_storage"], "unit": "tasks of role checkpoint_storage"},
    }


def run(playbook: str, **more: str) -> None:
    """Run one of the project's playbooks; raises DemoError."""
    demo.must(demo.call(["ansible-playbook", "-i", INVENTORY, f"playbooks/{playbook}"], **more), playbook)


def overhead_seconds(evidence: Evidence) -> float:
    """Return how long the stage took, less what the node spent on saving, reading, small files and PyTorch's own."""
    if evidence.finished is None or any(each.verdict != "pass" for each in evidence.findings):
        said = "; ".join(f"{each.check}: {each.reason}" for each in evidence.findings if each.verdict != "pass")
        raise demo.DemoError(f"stage storage on {evidence.node}: {said or 'not finished'}, expected a pass")
    busy = sum(second for saved in evidence.detail["rounds"] for second in io_seconds(saved))
    return evidence.finished - evidence.started - busy


def io_seconds(saved: Mapping[str, Any]) -> Iterator[float]:
    """Yield the seconds of each kind of I/O that a node's part in one save had."""
    yield saved["write"]["blocking_seconds"]
    yield saved["read"]["seconds"]
    yield saved["metadata"]["seconds"]
    yield saved["checkpoint"]["save_seconds"] + saved["checkpoint"]["load_seconds"]


def writer_figures() -> dict[str, dict[str, Any]]:
    """Return how fast one rank writes its shard beside what fio makes of the same file system, as medians."""
    lab.install_needed({"fio": "fio"})
    shard = Shard("bench", Shape.of(WRITER_BYTES))
    file = SHARED / "writer"
    ours, theirs = [], []
    try:
        for _ in range(WRITER_TURNS):
            wrote = shard.write(str(file))
            ours.append(wrote["bytes"] / (wrote["end"] - wrote["begin"]))
            file.unlink()
            theirs.append(fio_rate(file))
            file.unlink()
    finally:
        with suppress(FileNotFoundError):
            file.unlink()
    fast = statistics.median(theirs)
    ratio = statistics.median(ours) / fast
    unit = f"of fio's {fast / 1e9:.3g} GB/s on the same file system"
    return {"storage_write_muster_over_fio": {"value": round(ratio, 2), "unit": unit}}


def fio_rate(file: Path) -> float:
    """Return the bytes a second at which fio writes a file of a shard's size and brings it to the disk."""
    command = ["fio", "--name=writer", f"--filename={file}", f"--size={WRITER_BYTES}", *FIO, "--output-format=json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    wrote = json.loads(done.stdout)["jobs"][0]["write"]
    return float(wrote["io_bytes"]) / wrote["runtime"] * 1000


if __name__ == "__main__":
    try:
        sys.exit(main())
    except demo.DemoError as error:
        sys.exit(f"bench_storage: {error}")
