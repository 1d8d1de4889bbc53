"""Slurm's REST service: who has a token may do what that user may, everybody else nothing."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
import yaml
from cluster import FLEET, LEADING, LOGIN, USER, job, on, wait_for_job

HOSTS = {host["name"]: host["address"] for host in yaml.safe_load(FLEET.read_text(encoding="utf-8"))["hosts"]}
URL = f"http://{HOSTS[LOGIN]}:6820"


def token(user: str = USER) -> str:
    """Return a token of a user, as an administrator makes it."""
    return on(LEADING, f"scontrol token lifespan=600 username={user}").strip().partition("=")[2]


def ask(path: str, headers: dict[str, str], content: Any = None) -> dict[str, Any]:
    """Return what the service answers; raises HTTPError."""
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(URL + path, data, {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return dict(json.load(answer))


def headers(user: str, secret: str) -> dict[str, str]:
    """Return what tells the service who asks."""
    return {"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": secret}


@pytest.mark.main_road
def test_a_user_with_a_token_submits_a_job() -> None:
    own = headers(USER, token())
    assert ask("/slurm/v0.0.38/ping", own)["errors"] == []
    script = "#!/bin/sh\nid -un\n"
    wanted = {"name": "rest", "current_working_directory": "/tmp", "environment": {"PATH": "/usr/bin:/bin"}}
    answer = ask("/slurm/v0.0.38/job/submit", own, {"script": script, "job": wanted})
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
    with pytest.raises((urllib.error.HTTPError, urllib.error.URLError, ConnectionError)) as refused:
        answer = ask("/slurm/v0.0.38/jobs", given)
        if answer.get("errors"):
            raise urllib.error.URLError(answer["errors"])
    assert getattr(refused.value, "code", 500) in (401, 500)


def test_the_service_runs_as_an_ordinary_user() -> None:
    owner = on(LOGIN, "ps -o user= -C slurmrestd").split()
    assert owner
    assert not {"root", "slurm"} & set(owner)
