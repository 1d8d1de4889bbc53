"""Who logs in to a host, and whom role slurm lets restrict ssh there."""

from __future__ import annotations

import grp
import json
import os
import pwd
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.host.login_user import LoginUser, LoginUserError

from tests import warm_ansible
from tests.identified import IDENTIFIED

ROOT = Path(__file__).resolve().parents[3]
ROLE = ROOT / "roles/slurm"
Directory = Callable[..., None]


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch) -> Directory:
    """Make the directory know users by number, groups by number, and which groups each user is in."""

    def known(users: dict[int, str], groups: dict[int, str], of: dict[str, list[int]]) -> None:
        named = {number: SimpleNamespace(pw_name=name, pw_gid=number) for number, name in users.items()}
        monkeypatch.setattr(pwd, "getpwuid", named.__getitem__)
        monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_name=groups[gid]))
        monkeypatch.setattr(os, "getgrouplist", lambda name, gid: [gid, *of[name]])
        monkeypatch.setattr(os, "getuid", lambda: 2003)
        monkeypatch.delenv("SUDO_UID", raising=False)

    return known


def test_groups_are_those_of_the_directory_by_name(directory: Directory) -> None:
    directory({2003: "ops"}, {27: "sudo", 2003: "ops"}, {"ops": [27]})
    assert LoginUser.here().to_dict() == {"name": "ops", "uid": 2003, "groups": ["ops", "sudo"]}


def test_root_by_sudo_is_the_user_who_called_it(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    directory({0: "root", 2003: "ops"}, {0: "root", 2003: "ops"}, {"root": [], "ops": []})
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert LoginUser.here().name == "root"
    monkeypatch.setenv("SUDO_UID", "2003")
    assert LoginUser.here().to_dict() == {"name": "ops", "uid": 2003, "groups": ["ops"]}


def test_group_without_a_name_is_left_out(directory: Directory) -> None:
    directory({2003: "ops"}, {2003: "ops"}, {"ops": [4711]})
    assert LoginUser.here().groups == ("ops",)


def test_user_without_a_name_is_an_error(directory: Directory) -> None:
    directory({}, {}, {})
    with pytest.raises(LoginUserError, match="no user with number 2003"):
        LoginUser.here()


def faults(tmp_path: Path, **variables: Any) -> list[str]:
    """Return what the preflight of role slurm says of a host, ``login`` being what the module would answer there."""
    module = tmp_path / "library/login_user_info.py"
    module.parent.mkdir()
    answer = {"changed": False, **variables.pop("login", {"name": "ops", "uid": 2003, "groups": ["ops", "users"]})}
    module.write_text(f"#!{sys.executable}\nprint({json.dumps(answer)!r})\n", encoding="utf-8")
    tasks = json.loads(json.dumps(yaml.safe_load((ROLE / "tasks/preflight.yml").read_text(encoding="utf-8"))))
    asked = tasks[0]
    asked["login_user_info"] = asked.pop("muster.cluster.login_user_info")
    names = ("__slurm_restricts_ssh", "__slurm_checks", "__slurm_faults", "__slurm_key_bytes", "__slurm_jwt_bytes")
    roles = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {
            **IDENTIFIED,
            **yaml.safe_load((ROLE / "defaults/main.yml").read_text(encoding="utf-8")),
            **{name: roles[name] for name in names},
            "slurm_roles": ["compute"],
            "slurm_controllers": [{"name": "ctl", "address": "192.0.2.1"}],
            "ansible_python_interpreter": sys.executable,
            **variables,
        },
        "tasks": [asked, {"ansible.builtin.debug": {"msg": "FAULTS {{ __slurm_faults | to_json }} END"}}],
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    environment = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_LIBRARY": str(module.parent)}
    environment |= {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"), "ANSIBLE_NOCOLOR": "1"}
    done = warm_ansible.run(
        ["ansible-playbook", "-i", "localhost,", "-c", "local", str(tmp_path / "play.yml")],
        cwd=tmp_path,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.partition("FAULTS ")[2].partition(" END")[0]
    found: list[str] = json.loads(" ".join(said.split()))
    return found


def test_login_user_whom_the_rule_would_refuse_is_told_before_it_is_written(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, slurm_ssh_admin_groups=["sudo", "admin"])
    assert fault.startswith(
        "user ops, as whom Ansible logs in, is in ops, users, expected one of slurm_ssh_admin_groups ("
    )
    assert "(sudo, admin): with slurm_ssh_access pam_slurm_adopt the next login would be refused" in fault


@pytest.mark.parametrize(
    "variables",
    [
        {"slurm_ssh_admin_groups": ["admin", "users"]},
        {"login": {"name": "root", "uid": 0, "groups": ["root"]}},
        {"slurm_ssh_access": "open"},
        {"slurm_roles": ["controller"], "slurm_files": ["a"], "slurm_controllers": [{"name": "localhost"}]},
    ],
    ids=["a member", "root", "ssh is open", "no compute node"],
)
def test_login_user_who_is_not_refused_is_no_fault(tmp_path: Path, variables: dict[str, Any]) -> None:
    assert faults(tmp_path, **variables) == []


def test_no_group_at_all_is_said(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, slurm_ssh_admin_groups=[], slurm_ssh_access="pam_slurm")
    assert "slurm_ssh_admin_groups (which is empty): with slurm_ssh_access pam_slurm " in fault
