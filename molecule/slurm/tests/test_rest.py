"""Slurm's REST service: on no network, and who has a token may do what that user may, everybody else nothing."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any

import pytest
from cluster import LEADING, LOGIN, NODES, USER, job, on, ssh, wait_for_job

SOCKET = "/run/slurmrestd/slurmrestd.socket"
PORT = 6820
# Asks once, as JSON on standard input says, and prints status and answer.
PROGRAM = """
import http.client, json, socket, sys
given = json.load(sys.stdin)
connection = http.client.HTTPConnection("slurmrestd", timeout=60)
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(given["socket"])
connection.request(given["method"], given["path"], given["content"], given["headers"])
answer = connection.getresponse()
print(json.dumps([answer.status, answer.read().decode()]))
"""


def token(user: str = USER) -> str:
    """Return a token of a user, as an administrator makes it."""
    return on(LEADING, f"scontrol token lifespan=600 username={user}").strip().partition("=")[2]


def asked(
    path: str, headers: dict[str, str], content: Any = None, user: str = "root"
) -> subprocess.CompletedProcess[str]:
    """Ask the service on its host, as one of its users."""
    given = {
        "socket": SOCKET,
        "method": "GET" if content is None else "POST",
        "path": path,
        "content": None if content is None else json.dumps(content),
        "headers": {"Content-Type": "application/json", **headers},
    }
    # The token goes by standard input: arguments are there for all to see.
    return ssh(LOGIN, f"echo {shlex.quote(json.dumps(given))} | python3 -c {shlex.quote(PROGRAM)}", user)


def ask(path: str, headers: dict[str, str], content: Any = None) -> tuple[int, dict[str, Any]]:
    """Return the status and what the service answers, empty if that is no JSON."""
    done = asked(path, headers, content)
    assert done.returncode == 0, done.stderr
    status, text = json.loads(done.stdout)
    try:
        return status, json.loads(text)
    except ValueError:
        return status, {}


def headers(user: str, secret: str) -> dict[str, str]:
    """Return what tells the service who asks."""
    return {"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": secret}


@pytest.mark.main_road
def test_a_user_with_a_token_submits_a_job() -> None:
    own = headers(USER, token())
    status, answer = ask("/slurm/v0.0.38/ping", own)
    assert (status, answer["errors"]) == (200, [])
    script = "#!/bin/sh\nid -un\n"
    wanted = {"name": "rest", "current_working_directory": "/tmp", "environment": {"PATH": "/usr/bin:/bin"}}
    _, answer = ask("/slurm/v0.0.38/job/submit", own, {"script": script, "job": wanted})
    number = str(answer["job_id"])
    wait_for_job(number, "COMPLETED")
    assert job(number)["UserId"].startswith(f"{USER}(")


@pytest.mark.main_road
@pytest.mark.parametrize("case", ["none", "wrong", "another user's"])
def test_without_ones_own_token_nothing_is_told(case: str) -> None:
    given = {
        "none": {},
        "wrong": headers(USER, f"{token()[:-6]}AAAAAA"),
        "another user's": headers("root", token()),
    }[case]
    status, answer = ask("/slurm/v0.0.38/jobs", given)
    assert status in (401, 500) or answer.get("errors"), answer
    assert not answer.get("jobs")


@pytest.mark.main_road
def test_the_service_is_on_no_network_and_only_its_group_may_ask() -> None:
    for host in (LOGIN, NODES[0]):
        assert ssh(host, f"exec 3<>/dev/tcp/{LOGIN}/22").returncode == 0, f"{host} does not reach {LOGIN} at all"
        assert ssh(host, f"exec 3<>/dev/tcp/{LOGIN}/{PORT}").returncode != 0, f"{LOGIN} listens on port {PORT}"
    assert on(LOGIN, f"stat -c '%U %G %a' $(dirname {SOCKET})").split() == ["slurmrestd", "slurmrestd", "750"]
    refused = asked("/slurm/v0.0.38/ping", headers(USER, token()), user=USER)
    assert refused.returncode != 0 and "PermissionError" in refused.stderr, refused


def test_the_service_runs_as_an_ordinary_user() -> None:
    owner = on(LOGIN, "ps -o user= -C slurmrestd").split()
    assert owner
    assert not {"root", "slurm"} & set(owner)
