#!/usr/bin/python
"""Module slurm_database: the MariaDB database and user of slurmdbd."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_database
short_description: Create database and user of slurmdbd in the MariaDB of this host
version_added: 0.1.0
author: The Muster developers (@muster-cluster)
description:
  - Creates database and user, and grants the user all rights on this database only. Runs as root, which MariaDB
    authenticates by its Unix socket.
  - Nothing is ever dropped.
attributes:
  check_mode: {support: full, description: Shows what would change.}
  diff_mode: {support: none, description: The result lists the steps.}
options:
  name: {description: Name of the database., type: str, default: slurm_acct_db}
  user: {description: Name of the user., type: str, default: slurm}
  password:
    description: Password of the user. Without it MariaDB authenticates the user of that name by its Unix socket.
    type: str
    default: ""
  timeout_seconds: {description: Time limit of one query., type: float, default: 60}
"""

EXAMPLES = r"""
- name: Make slurmdbd's database
  muster.cluster.slurm_database:
    password: "{{ slurm_database_password }}"
"""

RETURN = r"""
steps:
  description: Steps that were done, or would be.
  returned: always
  type: list
  elements: str
  sample: [make database slurm_acct_db, "make user slurm, known by its socket"]
"""

import hashlib
import json
import re
import subprocess
from dataclasses import dataclass

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError

ARGUMENTS = {
    "name": {"type": "str", "default": "slurm_acct_db"},
    "user": {"type": "str", "default": "slurm"},
    "password": {"type": "str", "default": "", "no_log": True},
    "timeout_seconds": {"type": "float", "default": 60},
}
_NAME = re.compile(r"[A-Za-z0-9_]+")


class DatabaseError(MusterError):
    """What MariaDB did not do."""


@dataclass(frozen=True)
class Present:
    """What is there; ``known_by`` is ``unix_socket``, the hash of a password, or "" where there is no user."""

    database: bool = False
    known_by: str = ""
    granted: bool = False


def hash_of(password: str) -> str:
    """Return what MariaDB keeps of a password (mysql_native_password)."""
    once = hashlib.sha1(password.encode(), usedforsecurity=False).digest()
    return "*" + hashlib.sha1(once, usedforsecurity=False).hexdigest().upper()


def quoted(text: str) -> str:
    """Return a text as SQL's."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def question(name: str, user: str) -> str:
    """Return the SQL that ``parse`` reads the answer of."""
    return (
        "SET NAMES utf8mb4;"
        f"SELECT 'database', COUNT(*) FROM information_schema.schemata WHERE schema_name = {quoted(name)};"
        f"SELECT 'user', Priv FROM mysql.global_priv WHERE User = {quoted(user)} AND Host = 'localhost';"
        "SELECT 'grant', COUNT(*) FROM mysql.db WHERE REPLACE(Db, '\\\\', '') = "
        f"{quoted(name)} AND User = {quoted(user)} AND Host = 'localhost' AND Create_priv = 'Y' AND Drop_priv = 'Y' "
        "AND Alter_priv = 'Y' AND Select_priv = 'Y' AND Insert_priv = 'Y' AND Update_priv = 'Y' AND Delete_priv = 'Y' "
        "AND Trigger_priv = 'Y' AND Execute_priv = 'Y' AND Create_routine_priv = 'Y' AND Lock_tables_priv = 'Y';"
    )


def parse(answer: str) -> Present:
    """Return what MariaDB says is there; raises DatabaseError."""
    rows = dict(line.partition("\t")[::2] for line in answer.splitlines())
    try:
        database, granted = int(rows["database"]) > 0, int(rows["grant"]) > 0
        priv = json.loads(rows["user"]) if "user" in rows else {}
    except (KeyError, ValueError) as exc:
        raise DatabaseError(f"MariaDB: {answer[:200]!r}, expected what it knows of database and user") from exc
    known_by = priv.get("plugin", "") if priv.get("plugin") == "unix_socket" else priv.get("authentication_string", "")
    return Present(database, known_by if priv else "", granted)


def plan(present: Present, name: str, user: str, password: str) -> list[tuple[str, str]]:
    """Return (what, SQL) of each step."""
    steps = []
    who = f"{quoted(user)}@'localhost'"
    if not present.database:
        steps.append((f"make database {name}", f"CREATE DATABASE `{name}`;"))
    wanted = hash_of(password) if password else "unix_socket"
    if present.known_by != wanted:
        how = (
            f"IDENTIFIED VIA mysql_native_password USING {quoted(wanted)}" if password else "IDENTIFIED VIA unix_socket"
        )
        said = "known by a password" if password else "known by its socket"
        steps.append((f"make user {user}, {said}", f"CREATE USER IF NOT EXISTS {who}; ALTER USER {who} {how};"))
    if not present.granted:
        # An underscore would stand for any character.
        pattern = name.replace("_", "\\_")
        steps.append((f"let {user} use {name}", f"GRANT ALL PRIVILEGES ON `{pattern}`.* TO {who};"))
    return steps


def ask(sql: str, timeout_seconds: float) -> str:
    """Return MariaDB's answer; raises DatabaseError. What is asked goes through a pipe: others can read arguments."""
    command = ["mariadb", "--no-defaults", "--batch", "--skip-column-names", "--raw", "--user=root"]
    try:
        done = subprocess.run(command, input=sql, capture_output=True, text=True, timeout=timeout_seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise DatabaseError(f"mariadb: {exc}") from exc
    if done.returncode:
        raise DatabaseError(f"mariadb: {done.stderr.strip()}")
    return done.stdout


def main() -> None:
    """Make database and user."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    name, user, seconds = params["name"], params["user"], params["timeout_seconds"]
    for each in (name, user):
        if not _NAME.fullmatch(each):
            module.fail_json(msg=f"{each!r} is no name of a database or user, expected {_NAME.pattern}", steps=[])
    try:
        steps = plan(parse(ask(question(name, user), seconds)), name, user, params["password"])
        if not module.check_mode:
            for _what, sql in steps:
                ask(sql, seconds)
            left = plan(parse(ask(question(name, user), seconds)), name, user, params["password"])
            if left:
                raise DatabaseError(f"after all steps there was still to do: {'; '.join(what for what, _sql in left)}")
    except DatabaseError as exc:
        module.fail_json(msg=str(exc), steps=[])
    module.exit_json(changed=bool(steps), steps=[what for what, _sql in steps])


if __name__ == "__main__":
    main()
