"""``muster examine``: one examination of this host, printed as evidence."""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid
from collections.abc import Sequence

from ..examination.registry import STAGE_CHECKS, examine, examine_for
from ..examination.rules import rules_of
from ..host.evidence_store import EvidenceStore, valid_id
from ..host.host import LocalHost
from ..host.own_program import program_digest
from ..host.raw_outputs import PLACE, digests_of
from ..judging.fingerprint import fingerprint_of
from ..judging.identity import identity_of
from ..words.evidence import Evidence, expect_digest_of
from ..words.expectations import read_expectations
from ..words.reader import ReadError, plain
from .command_line import STATE_DIRECTORY, wrong

STAGES = ("preflight", "burn_in")


def main(arguments: Sequence[str], version: str) -> int:
    """Print the evidence as JSON and return 0; 2 for expectations that cannot be used."""
    parser = argparse.ArgumentParser(
        prog="muster examine", description="Examine this host once; expectations (JSON) on standard input."
    )
    parser.add_argument("--stage", required=True, choices=STAGES)
    parser.add_argument("--node", required=True, help="this host's name in the fleet")
    parser.add_argument("--id", help="the evidence's id; a new UUID by default")
    parser.add_argument("--check", metavar="NAME", help="ask one check of the stage, print its findings, keep nothing")
    parser.add_argument("--no-store", action="store_true", help="leave no trace on this host")
    parser.add_argument("--state-directory", default=STATE_DIRECTORY)
    options = parser.parse_args(arguments)
    try:
        expect = read_expectations(json.load(sys.stdin))
    except ReadError as exc:
        return wrong(f"expectations: {exc}")
    except ValueError as exc:
        return wrong(f"expectations on standard input are not JSON: {exc}")
    if options.id is not None and not valid_id(options.id):
        return wrong(f"--id is {options.id!r}, expected letters, digits, '-', '_' and '.'")
    if options.check is not None and options.check not in STAGE_CHECKS[options.stage]:
        return wrong(f"--check is {options.check!r}, expected a check of stage {options.stage}")
    started, began = time.time(), time.monotonic()
    host = LocalHost(expect.tools.path, expect.tools.root)
    if options.check is not None:
        findings = examine_for(options.check, host, expect).findings
        print(json.dumps([finding.to_dict() for finding in findings], sort_keys=True))
        return 0
    examination = examine(options.stage, host, expect)
    evidence = Evidence(
        id=options.id or str(uuid.uuid4()),
        node=options.node,
        stage=options.stage,
        started=started,
        finished=time.time(),
        boot_id=examination.values.get("boot_id") or "",
        fingerprint=fingerprint_of(examination.values, expect),
        expect_digest=expect_digest_of(options.stage, plain(expect)),
        findings=examination.findings,
        detail={"seconds": round(time.monotonic() - began, 3), "tool_seconds": round(host.tool_seconds, 3)},
        raw=digests_of(examination.outputs),
        muster_version=version,
        identity=identity_of(examination.values, expect),
        rules=rules_of(options.stage),
        program=program_digest(),
    )
    if not options.no_store:
        try:
            store = EvidenceStore(options.state_directory)
            store.write_raw(evidence, PLACE, examination.outputs)
            store.write(evidence)
        except OSError as exc:
            # A full or read-only disk is no reason to keep the answer back.
            print(f"muster: evidence could not be kept on this host: {exc}", file=sys.stderr)
    print(json.dumps(evidence.to_dict(), sort_keys=True))
    return 0
