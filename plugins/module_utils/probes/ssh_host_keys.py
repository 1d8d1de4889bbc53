"""``/etc/ssh/ssh_host_*_key.pub``: the keys by which the host shows who it is (sshd(8)).

A file holds type, key in base64 and a comment. The fingerprint is that of ``ssh-keygen -l``: SHA-256 of the key, in
base64 without its padding.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping

from ..host import blocks
from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "ssh_host_keys"
FILES = "/etc/ssh/ssh_host_*_key.pub"

_KEY = re.compile(r"([a-z0-9@.-]+) ([A-Za-z0-9+/]+={0,2})(?: .*)?\n", re.ASCII)


def collect(host: Host, expect: Expectations) -> Output:
    """Read the public keys."""
    return blocks.read_files(host, FILES)


def parse(output: Output) -> Mapping[str, str]:
    """Return the fingerprint (``SHA256:...``) of each key by its type; raises Unreadable."""
    require_success(output)
    if not blocks.is_listed(output.stdout):
        raise Unreadable(f"begins with {output.stdout[:40]!r}, expected the list of {FILES}")
    keys: dict[str, str] = {}
    for path, file in blocks.split(output.stdout).items():
        match = _KEY.fullmatch(file.stdout)
        if file.rc != 0 or not match:
            raise Unreadable(f"{path}: {file.error or file.stdout[:40]!r}, expected a public key")
        keys[match.group(1)] = _fingerprint(path, match.group(2))
    if not keys:
        raise Unreadable(f"no file {FILES}")
    return keys


def _fingerprint(path: str, text: str) -> str:
    try:
        key = base64.b64decode(text, validate=True)
    except binascii.Error as exc:
        raise Unreadable(f"{path}: {exc}, expected a key in base64") from exc
    return f"SHA256:{base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip('=')}"
