"""What makes slurmdbd's database and user, and what MariaDB says of them."""

import pytest
from ansible_collections.muster.cluster.plugins.modules.slurm_database import (
    DatabaseError,
    Present,
    hash_of,
    parse,
    plan,
    question,
    quoted,
)

# As MariaDB 10.11 answers.
SOCKET = (
    'database\t1\nuser\t{"access":0,"version_id":101119,"plugin":"unix_socket","authentication_string":""}\ngrant\t1\n'
)
PASSWORD = SOCKET.replace("unix_socket", "mysql_native_password").replace(
    '_string":""', '_string":"*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19"'
)


def test_hash_is_what_mariadb_keeps():
    assert hash_of("password") == "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19"


@pytest.mark.parametrize(("answer", "password"), [(SOCKET, ""), (PASSWORD, "password")])
def test_database_as_declared_needs_nothing(answer, password):
    assert plan(parse(answer), "slurm_acct_db", "slurm", password) == []


@pytest.mark.parametrize(("answer", "password"), [(SOCKET, "password"), (PASSWORD, ""), (PASSWORD, "other")])
def test_user_that_is_known_otherwise_is_altered(answer, password):
    ((what, sql),) = plan(parse(answer), "slurm_acct_db", "slurm", password)
    assert what.startswith("make user slurm") and "ALTER USER 'slurm'@'localhost'" in sql
    assert not password or password not in sql.replace("mysql_native_password", "")


def test_fresh_server_gets_all_of_it():
    present = parse("database\t0\ngrant\t0\n")
    assert present == Present()
    steps = plan(present, "slurm_acct_db", "slurm", "")
    assert [what for what, _sql in steps] == [
        "make database slurm_acct_db",
        "make user slurm, known by its socket",
        "let slurm use slurm_acct_db",
    ]
    # Without the backslash the user could use slurmXacctXdb too.
    assert steps[2][1] == "GRANT ALL PRIVILEGES ON `slurm\\_acct\\_db`.* TO 'slurm'@'localhost';"


@pytest.mark.parametrize("answer", ["", "database\tx\ngrant\t1\n", "grant\t1\n", "database\t1\nuser\t{\ngrant\t1\n"])
def test_answer_that_cannot_be_read_is_an_error(answer):
    with pytest.raises(DatabaseError, match="expected what it knows"):
        parse(answer)


def test_texts_cannot_end_their_quotes():
    assert quoted("a'b\\") == "'a\\'b\\\\'" and "WHERE schema_name = 'slurm_acct_db'" in question(
        "slurm_acct_db", "slurm"
    )
