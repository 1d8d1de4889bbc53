"""Try a Slurm configuration before it is live: a second slurmctld on it, in network and process namespaces of its own.

slurmctld 22.05 has no option that tests a configuration. What it says of a staged one, it says without touching the
running controller: it has a state directory of its own, no way out to nodes, database or the other controller, and runs
none of the programs that would act on them.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ..host.host import Host
from ..words.errors import MusterError

SLURM_CONF = "slurm.conf"

# Where the trial must not go: state, logs, database, and programs that switch nodes or addresses. GPU as a trackable
# resource needs the database, and what weighs it needs the resource.
_LEFT_OUT = re.compile(
    r"\s*(SlurmctldHost|ControlMachine|ControlAddr|BackupController|BackupAddr|StateSaveLocation|SlurmctldPidFile"
    r"|SlurmctldLogFile|SlurmSchedLogFile|SlurmctldDebug|SlurmctldSyslogDebug|SlurmctldPrimaryOnProg"
    r"|SlurmctldPrimaryOffProg|SuspendProgram|SuspendTime|ResumeProgram|ResumeFailProgram|AccountingStorage\w*"
    r"|DefaultStorage\w*|JobComp\w*|PriorityWeightTRES|FederationParameters)\s*=",
    re.IGNORECASE,
)
_WEIGHTS = re.compile(r"\s+TRESBillingWeights=\S+", re.IGNORECASE)
# glibc resolves not even a number where the host has no address but its loopback's: these are for documentation.
_SCRIPT = r"""
ip link set lo up && ip address add 192.0.2.1/32 dev lo || exit 5
ip address add 2001:db8::1/128 dev lo 2>/dev/null
slurmctld -D -f "$1/slurm.conf" >"$1/log" 2>&1 </dev/null &
controller=$!
tries=$2
while [ "$tries" -gt 0 ]; do
  grep -q -e 'fatal: ' -e ', retrying in' "$1/log" && exit 3
  kill -0 "$controller" 2>/dev/null || exit 3
  SLURM_CONF="$1/slurm.conf" scontrol ping 2>/dev/null | grep -q ' is UP' && exit 0
  sleep 0.2
  tries=$((tries - 1))
done
exit 4
"""
_TRIES_A_SECOND = 5

# slurmctld logs most mistakes as errors and goes on without what it did not understand.
_MISTAKE = re.compile(
    r"pars(?:e|ing) error|unrecognized|invalid|not a valid|bad |lookup failure for node|duplicate"
    r"|cannot (?:find|load|create|stat)|couldn't find|unable to (?:resolve|process)|unknown|ignored",
    re.IGNORECASE,
)
# What every controller says that has no mail program, no MPI library, or no state yet.
_HARMLESS = re.compile(r"MailProg|\bmpi/|libpmi|state file|backup state save file|last_tres|_state\b", re.IGNORECASE)


class TrialError(MusterError):
    """The configuration was not accepted, or could not be tried."""


def trial_text(text: str, name: str, directory: str) -> str:
    """Return a slurm.conf that the host ``name`` serves from ``directory`` alone."""
    kept = [_WEIGHTS.sub("", line) for line in text.splitlines() if not _LEFT_OUT.match(line)]
    own = [
        f"SlurmctldHost={name}(127.0.0.1)",
        f"StateSaveLocation={directory}/state",
        f"SlurmctldPidFile={directory}/pid",
        # With -D what is logged goes to standard error; the host's own log would tell of a controller that never was.
        "SlurmctldDebug=info",
        "SlurmctldSyslogDebug=quiet",
    ]
    return "\n".join([*own, *kept]) + "\n"


def complaints(log: str) -> list[str]:
    """Return what slurmctld found wrong with its configuration, in its words."""
    found = []
    for line in log.splitlines():
        said = re.search(r"\b(error|fatal): .*", line)
        wrong = said and (said.group(1) == "fatal" or _MISTAKE.search(line)) and not _HARMLESS.search(line)
        if said and wrong and said.group(0) not in found:
            found.append(said.group(0))
    return found


def judge(rc: int | None, why: str, log: str, seconds: float) -> None:
    """Raise TrialError unless the trial's controller answered and had nothing to complain of."""
    found = complaints(log)
    if found:
        # The last one is what it stopped for.
        words = found[:3] + [each for each in found[-1:] if each not in found[:3]]
        raise TrialError(f"slurmctld does not accept the configuration: {'; '.join(words)}")
    last = (log.strip().splitlines() or ["it said nothing"])[-1]
    if rc == 3:
        raise TrialError(f"slurmctld ended on the configuration: {last}")
    if rc == 4:
        raise TrialError(f"slurmctld did not answer within {seconds:g} s on the configuration: {last}")
    if rc != 0:
        raise TrialError(f"the configuration cannot be tried in namespaces of its own (unshare): {why or last}")


def slurm_uid(text: str) -> int:
    """Return the number of SlurmUser; raises TrialError where this host has no such user."""
    user = next(iter(re.findall(r"(?im)^\s*SlurmUser\s*=\s*([^\s#(]+)", text)), "root")
    try:
        return int(user) if user.isdigit() else pwd.getpwnam(user).pw_uid
    except KeyError:
        raise TrialError(f"SlurmUser={user}: this host has no such user") from None


def try_files(host: Host, files: Mapping[str, str], name: str, seconds: float) -> None:
    """Try the files on this host, which slurm.conf calls ``name``. Raises TrialError; leaves nothing behind."""
    owner = slurm_uid(files[SLURM_CONF])
    directory = tempfile.mkdtemp(prefix="muster-slurm-")
    try:
        place = Path(directory)
        place.chmod(0o755)
        for each, text in files.items():
            place.joinpath(each).write_text(
                trial_text(text, name, directory) if each == SLURM_CONF else _WEIGHTS.sub("", text), encoding="utf-8"
            )
        place.joinpath("log").touch()
        for own in (place, place / "state"):
            own.mkdir(exist_ok=True)
            os.chown(own, owner, -1)
        namespaces = ["unshare", "--net", "--pid", "--fork", "--kill-child"]
        script = ["sh", "-c", _SCRIPT, "trial", directory, str(int(seconds * _TRIES_A_SECOND))]
        output = host.run([*namespaces, *script], seconds * 2 + 10)
        log = place.joinpath("log").read_text(encoding="utf-8", errors="replace")
    except OSError as exc:
        raise TrialError(f"the configuration cannot be tried: {exc}") from exc
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    why = output.error or next(iter(output.stderr.strip().splitlines()[-1:]), "")
    judge(output.rc, why, log, seconds)
