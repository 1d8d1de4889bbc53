"""One host collected over OpenSSH: the node program goes there on standard input, the archive comes back."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.muster.cluster.plugins.module_utils.host.whole_files import PRIVATE, replace_file
from ansible_collections.muster.cluster.plugins.module_utils.words.printable import one_line
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.draft_error import DraftError

# Probes run one after the other and have limits of their own: a host that is well takes a minute at most.
LIMIT_SECONDS = 900.0
# Far more than a host's archive has: what is larger is none.
MOST_BYTES = 64 * 2**20
_GZIP = b"\x1f\x8b"
_REMOTE = 'f=$(mktemp) && cat >"$f" && {become}python3 "$f" collect --output -; s=$?; rm -f "$f"; exit $s'
# There is no terminal on which a password could be asked for.
_SUDO = "sudo -n "
_SAID = 300


@dataclass(frozen=True)
class Ssh:
    """How a host is reached: OpenSSH's configuration (None: the user's own), and the time limit of the whole.

    With ``become`` whoever logs in becomes root there by sudo, which must ask for no password.
    """

    config: Path | None = None
    limit_seconds: float = LIMIT_SECONDS
    become: bool = False

    def argv(self, host: str) -> list[str]:
        """Return the command that collects ``host``, as ssh names it."""
        config = ["-F", str(self.config)] if self.config else []
        # The user's shell there may be any; what it starts is one that knows the words.
        remote = f"exec sh -c {shlex.quote(_REMOTE.format(become=_SUDO if self.become else ''))}"
        return ["ssh", *config, "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "--", host, remote]


def fetch_archive(host: str, ssh: Ssh, program: Path, archive: Path) -> None:
    """Run the node program on a host and write its archive to a file of its owner alone. Raises DraftError."""
    late = threading.Event()
    with program.open("rb") as stdin, tempfile.TemporaryFile() as stderr:
        try:
            process = subprocess.Popen(ssh.argv(host), stdin=stdin, stdout=subprocess.PIPE, stderr=stderr)
        except OSError as exc:
            raise DraftError(f"{host}: ssh: {exc.strerror or exc}") from exc

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(ssh.limit_seconds, end)
        timer.start()
        with process:
            assert process.stdout is not None
            content = process.stdout.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:
                process.kill()
        timer.cancel()
        # The end alone: however much it is, it fills no memory.
        stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - 4 * _SAID))
        said = _text(stderr.read())[-_SAID:] or "nothing"
    if late.is_set():
        raise DraftError(f"{host}: no archive within {ssh.limit_seconds:g} s; ssh said: {said}")
    if len(content) > MOST_BYTES:
        raise DraftError(f"{host}: more than {MOST_BYTES} bytes, expected an archive")
    if process.returncode:
        raise DraftError(f"{host}: exit status {process.returncode}; ssh said: {said}")
    if not content.startswith(_GZIP):
        found = _text(content[:60])
        expected = "an archive alone (start-up files of the shell there must print nothing)"
        raise DraftError(f"{host}: an answer that begins with {found!r}, expected {expected}")
    replace_file(archive, content, PRIVATE)


def _text(data: bytes) -> str:
    return one_line(data.decode("utf-8", "replace"))
