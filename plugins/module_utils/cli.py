"""The program ``muster`` that runs on nodes. Imports happen in the subcommands: ``--version`` answers at once."""

from __future__ import annotations

import argparse
import sys
from typing import Any

STATE_DIRECTORY = "/var/lib/muster"
RUN_DIRECTORY = "/run/muster"
PLAN = "/etc/muster/burn_in.json"
EXPECT = "/etc/muster/expect.json"
PCIE = "/etc/muster/pcie.json"


def main(argv: list[str] | None = None, version: str = "0") -> int:
    """Run one subcommand and return the exit status: 0 done, 1 not possible now, 2 wrong input."""
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["collective"]:
        from .collective import main as collective  # noqa: PLC0415 -- start-up budget

        return int(collective(words[1:]) or 0)
    if words[:1] == ["fabric"]:
        from .fabric_test import main as fabric_test  # noqa: PLC0415 -- start-up budget

        return fabric_test(words[1:])
    if words[:1] == ["storage"]:
        from .storage_test import main as storage_test  # noqa: PLC0415 -- start-up budget

        return storage_test(words[1:])
    if words[:1] == ["storage-checkpoint"]:
        from .storage_checkpoint import main as storage_checkpoint  # noqa: PLC0415 -- start-up budget

        return storage_checkpoint()
    if words[:1] == ["gpu-stress"]:
        from .gpu_stress import main as gpu_stress  # noqa: PLC0415 -- start-up budget

        return gpu_stress(words[1:])
    if words[:1] == ["gpu-telemetry"]:
        from .gpu_telemetry import main as gpu_telemetry  # noqa: PLC0415 -- start-up budget

        return gpu_telemetry(words[1:])
    options = _parser(version).parse_args(words)
    result: int = options.function(options, version)
    return result


def _parser(version: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="muster", description="Examine this host.")
    parser.add_argument("--version", action="version", version=f"muster {version}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    examine = commands.add_parser("examine", help="examine this host once; expectations (JSON) on standard input")
    examine.add_argument("--stage", required=True, choices=("preflight", "burn_in"))
    examine.add_argument("--node", required=True, help="this host's name in the fleet")
    examine.add_argument("--id", help="the evidence's id; a new UUID by default")
    examine.add_argument("--no-store", action="store_true", help="leave no trace on this host")
    examine.add_argument("--state-directory", default=STATE_DIRECTORY)
    examine.set_defaults(function=_examine)
    burn_in = commands.add_parser("burn-in", help="run a burn-in plan, or look after one")
    burn_in.add_argument("action", choices=("run", "status", "settle", "stop"))
    burn_in.add_argument("--plan", default=PLAN)
    burn_in.add_argument("--evidence", action="store_true", help="print the evidence with the status")
    burn_in.add_argument("--state-directory", default=STATE_DIRECTORY)
    burn_in.set_defaults(function=_burn_in)
    judge = commands.add_parser(
        "judge", help="judge saved outputs; exit status 0 pass, 1 fail, 2 incomplete or wrong input"
    )
    judge.add_argument("path", help="a file that a tool printed, or a directory of raw outputs beside evidence")
    judge.add_argument("--probe", help="which probe's tool printed the file, such as nvidia_smi or kernel_log")
    judge.add_argument("--check", action="append", default=[], help="ask this check only; may be given several times")
    judge.add_argument("--expect", required=True, help="expectations of the host's class (JSON), - for standard input")
    judge.set_defaults(function=_judge)
    health = commands.add_parser(
        "health",
        help="look at what is cheap and cannot hang, and leave a heartbeat",
        description="Look at what is cheap and cannot hang, and leave a heartbeat; never takes more than 10 s.",
        epilog="Exit status: 0 pass, 1 fail, 2 incomplete (something was not read, or the heartbeat is no answer).",
    )
    what = health.add_mutually_exclusive_group()
    what.add_argument("--status", action="store_true", help="judge the last heartbeat instead of the host")
    what.add_argument(
        "--drain", action="store_true", help="drain the node in Slurm if it does not pass (as Slurm's hook)"
    )
    health.add_argument("--node", help="this host's name in Slurm; SLURMD_NODENAME, or the host's own")
    health.add_argument("--max-age", type=float, default=900.0, metavar="SECONDS", help="of the heartbeat; 900")
    health.add_argument("--expect", default=EXPECT, help=f"file with the expectations (JSON); {EXPECT}")
    health.add_argument("--state-directory", default=STATE_DIRECTORY)
    health.set_defaults(function=_health)
    _add_hooks(commands)
    roce = commands.add_parser(
        "roce",
        help="set a RoCE port from its file, or check it",
        epilog="Exit status: 0 the port is as declared, 1 it is not, 2 the file cannot be read.",
    )
    roce.add_argument("action", choices=("apply", "check"))
    roce.add_argument("--settings", required=True, metavar="FILE", help="such as /etc/muster/roce/mlx5_0.json")
    roce.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="for a device or address that is late")
    roce.add_argument("--root", default="/", help="what stands before every path; /")
    roce.add_argument("--tool-path", metavar="PATH", help="where tools are looked up")
    roce.set_defaults(function=_roce)
    pcie = commands.add_parser("pcie", help="set what PCIe devices need and every reboot undoes")
    pcie.add_argument("action", choices=("apply",))
    pcie.add_argument("--settings", default=PCIE, help=f"file with the settings (JSON); {PCIE}")
    pcie.set_defaults(function=_pcie)
    commands.add_parser("collective", help="one rank of a collective; see muster collective --help")
    commands.add_parser("fabric", help="one end of a test of every rail; see muster fabric --help")
    commands.add_parser("storage", help="one node's part in a test of storage; see muster storage --help")
    commands.add_parser("gpu-stress", help="load every GPU; see muster gpu-stress --help")
    commands.add_parser("gpu-telemetry", help="record what GPUs tell of themselves; see muster gpu-telemetry --help")
    return parser


def _add_hooks(commands: Any) -> None:
    for name, what in (
        ("prolog", "look at GPUs, links and log before a job starts"),
        ("epilog", "end what a job left behind, and look at what it did to the host"),
    ):
        hook = commands.add_parser(name, help=what, epilog="Exit status: 0 pass, 1 anything else.")
        hook.add_argument("--node", help="this host's name in Slurm; SLURMD_NODENAME, or the host's own")
        hook.add_argument("--expect", default=EXPECT, help=f"file with the expectations (JSON); {EXPECT}")
        hook.add_argument("--state-directory", default=STATE_DIRECTORY)
        hook.add_argument("--run-directory", default=RUN_DIRECTORY, help=f"kept while a job runs; {RUN_DIRECTORY}")
        hook.set_defaults(function=_hook, hook=name)


def _examine(options: argparse.Namespace, version: str) -> int:
    import json  # noqa: PLC0415 -- start-up budget, here and below
    import time  # noqa: PLC0415
    import uuid  # noqa: PLC0415

    from .evidence import Evidence, expect_digest_of  # noqa: PLC0415
    from .evidence_store import EvidenceStore, valid_id  # noqa: PLC0415
    from .expectations import ExpectationError, check_expectations  # noqa: PLC0415
    from .fingerprint import fingerprint_of  # noqa: PLC0415
    from .host import LocalHost  # noqa: PLC0415
    from .registry import examine  # noqa: PLC0415

    try:
        expect = json.load(sys.stdin)
        check_expectations(expect)
    except ExpectationError as exc:
        return _wrong(f"expectations: {exc}")
    except ValueError as exc:
        return _wrong(f"expectations on standard input are not JSON: {exc}")
    if options.id is not None and not valid_id(options.id):
        return _wrong(f"--id is {options.id!r}, expected letters, digits, '-', '_' and '.'")
    started, began = time.time(), time.monotonic()
    host = LocalHost(expect["tools"]["path"], expect["tools"]["root"])
    examination = examine(options.stage, host, expect)
    evidence = Evidence(
        id=options.id or str(uuid.uuid4()),
        node=options.node,
        stage=options.stage,
        started=started,
        finished=time.time(),
        boot_id=examination.values.get("boot_id") or "",
        fingerprint=fingerprint_of(examination.values, expect),
        expect_digest=expect_digest_of(options.stage, expect),
        findings=examination.findings,
        detail={"seconds": round(time.monotonic() - began, 3), "tool_seconds": round(host.tool_seconds, 3)},
        raw=examination.raw,
        muster_version=version,
    )
    if not options.no_store:
        try:
            store = EvidenceStore(options.state_directory)
            store.write_raw(evidence, "raw", examination.outputs)
            store.write(evidence)
        except OSError as exc:
            # A full or read-only disk is no reason to keep the answer back.
            print(f"muster: evidence could not be kept on this host: {exc}", file=sys.stderr)
    print(json.dumps(evidence.to_dict(), sort_keys=True))
    return 0


def _judge(options: argparse.Namespace, version: str) -> int:
    import json  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    from .expectations import ExpectationError, check_expectations  # noqa: PLC0415
    from .finding import FAIL, PASS, worst  # noqa: PLC0415
    from .rejudge import SavedError, rejudged, saved_outputs  # noqa: PLC0415

    try:
        text = sys.stdin.read() if options.expect == "-" else Path(options.expect).read_text(encoding="utf-8")
        expect = json.loads(text)
        check_expectations(expect)
        findings = rejudged(saved_outputs(options.path, options.probe), expect, options.check)
    except (OSError, ExpectationError, SavedError) as exc:
        return _wrong(str(exc))
    except ValueError as exc:
        return _wrong(f"--expect {options.expect} is not JSON: {exc}")
    for finding in findings:
        what = finding.reason or f"{finding.measured} {finding.unit}".rstrip()
        print(f"{finding.verdict:10} {finding.check} {finding.subject}: {what} [{finding.action}]")
    verdict = worst(finding.verdict for finding in findings)
    print(verdict)
    return {PASS: 0, FAIL: 1}.get(verdict, 2)


def _burn_in(options: argparse.Namespace, version: str) -> int:
    import time  # noqa: PLC0415

    from . import burn_in  # noqa: PLC0415
    from .burn_in_record import Record, status  # noqa: PLC0415

    if options.action == "run":
        # All of our modules are loaded by now, so that the file may be replaced while the run goes on.
        return burn_in.run_plan_file(options.plan, options.state_directory, version)
    record = Record(options.state_directory)
    if options.action == "stop":
        return _stop(record)
    if options.action == "settle" and status(record, time.monotonic(), time.time())["status"] == "interrupted":
        with record.locked() as mine:
            if mine:
                burn_in.settle(record, burn_in.boot_id_under, time.time())
    _print(status(record, time.monotonic(), time.time(), with_evidence=options.evidence))
    return 0


def _health(options: argparse.Namespace, _version: str) -> int:
    from . import health  # noqa: PLC0415

    if options.status:
        return health.status(options.state_directory, options.max_age)
    if options.drain:
        from . import health_drain  # noqa: PLC0415 -- start-up budget

        return health_drain.run(options.expect, options.state_directory, _node(options))
    return health.run(options.expect, options.state_directory, _node(options))


def _node(options: argparse.Namespace) -> str:
    import os  # noqa: PLC0415 -- start-up budget

    return str(options.node or os.environ.get("SLURMD_NODENAME") or os.uname().nodename.split(".")[0])


def _hook(options: argparse.Namespace, _version: str) -> int:
    from . import job_hooks  # noqa: PLC0415 -- start-up budget

    return job_hooks.run(options.hook, options.expect, options.state_directory, options.run_directory, _node(options))


def _roce(options: argparse.Namespace, _version: str) -> int:
    from .roce.command import run  # noqa: PLC0415

    return run(options)


def _pcie(options: argparse.Namespace, _version: str) -> int:
    from pathlib import Path  # noqa: PLC0415

    from .expectations import ExpectationError  # noqa: PLC0415
    from .pcie import PcieError, Settings, apply  # noqa: PLC0415
    from .roce.machine import LocalMachine  # noqa: PLC0415

    try:
        settings = Settings.from_json(Path(options.settings).read_text(encoding="utf-8"))
    except (OSError, ExpectationError, ValueError) as exc:
        return _wrong(f"{options.settings}: {exc}")
    try:
        steps = apply(LocalMachine(settings.tool_path, settings.root), settings)
    except PcieError as exc:
        print(f"muster: {exc}", file=sys.stderr)
        return 1
    for step in steps:
        print(step.what)
    return 0


def _stop(record: Any) -> int:
    import os  # noqa: PLC0415
    import signal  # noqa: PLC0415
    import time  # noqa: PLC0415

    from .burn_in import STOP_SECONDS  # noqa: PLC0415

    pid = record.holder()
    if pid is None:
        print("burn-in: no run is under way")
        return 0
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while record.alive():
        if time.monotonic() > deadline:
            print(f"burn-in: process {pid} did not end within {STOP_SECONDS:g} s", file=sys.stderr)
            return 1
        time.sleep(0.1)
    _print({"status": record.state()["status"]})
    return 0


def _print(data: Any) -> None:
    import json  # noqa: PLC0415

    print(json.dumps(data, sort_keys=True))


def _wrong(text: str) -> int:
    print(f"muster: {text}", file=sys.stderr)
    return 2
