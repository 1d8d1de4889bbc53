"""``muster burn-in``: run a plan, report on a run, stop it, or close the record of one that was interrupted."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence

from ..burn_in import burn_in
from ..burn_in.burn_in_record import Record, status
from ..host.waiting import wait_until
from .command_line import STATE_DIRECTORY

PLAN = "/etc/muster/burn_in.json"


def main(arguments: Sequence[str], version: str) -> int:
    """Do what is asked; ``run`` returns the run's own exit status, everything else 0 unless a run does not stop."""
    parser = argparse.ArgumentParser(prog="muster burn-in", description="Run a burn-in plan, or look after one.")
    parser.add_argument("action", choices=("run", "status", "settle", "stop"))
    parser.add_argument("--plan", default=PLAN)
    parser.add_argument("--evidence", action="store_true", help="print the evidence with the status")
    parser.add_argument("--uncollected", metavar="NODE", help="print this node's evidence after the last --known, too")
    parser.add_argument("--known", metavar="ID", action="append", default=[], help="evidence that the ledger has")
    parser.add_argument("--state-directory", default=STATE_DIRECTORY)
    options = parser.parse_args(arguments)
    try:
        return _done(options, version)
    except OSError as exc:
        # A full disk, most likely: what the run has to keep is the reason why it cannot go on.
        where = exc.filename or options.state_directory
        print(f"muster: burn-in {options.action}: {where}: {exc.strerror or exc}", file=sys.stderr)
        return 1


def _done(options: argparse.Namespace, version: str) -> int:
    if options.action == "run":
        # All of our modules are loaded by now, so that the file may be replaced while the run goes on.
        return burn_in.run_plan_file(options.plan, options.state_directory, version)
    record = Record(options.state_directory)
    if options.action == "stop":
        return _stop(record)
    if options.action == "settle":
        record.close_to_others()
        if status(record, time.monotonic(), time.time())["status"] == "interrupted":
            with record.locked() as mine:
                if mine:
                    burn_in.settle(record, burn_in.boot_id_under, time.time())
    said = status(record, time.monotonic(), time.time(), with_evidence=options.evidence)
    if options.uncollected is not None:
        said["uncollected"] = [each.to_dict() for each in record.uncollected(options.uncollected, options.known)]
    print(json.dumps(said, sort_keys=True))
    return 0


def _stop(record: Record) -> int:
    pid = record.holder()
    if pid is None:
        print("burn-in: no run is under way")
        return 0
    os.kill(pid, signal.SIGTERM)
    if not wait_until(lambda: not record.alive(), burn_in.STOP_SECONDS, 0.1):
        print(f"burn-in: process {pid} did not end within {burn_in.STOP_SECONDS:g} s", file=sys.stderr)
        return 1
    print(json.dumps({"status": record.state()["status"]}, sort_keys=True))
    return 0
