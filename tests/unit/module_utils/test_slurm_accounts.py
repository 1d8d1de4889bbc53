"""What brings the accounting database to a declaration, and what is refused."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.slurm.slurm_accounts import (
    LIMITS,
    Account,
    AccountsError,
    Association,
    Database,
    Present,
    ordered,
    parse_associations,
    parse_clusters,
    plan,
    same,
)

from tests.fake_host import FakeHost


def row(account, user="", partition="", parent="", **limits):
    return "|".join([account, user, partition, parent, *(limits.get(key, "") for key in LIMITS)])


TABLE = "\n".join(
    [
        row("root", QOS="normal"),
        row("root", "root", parent=""),
        row("physics", parent="root", GrpTRES="cpu=64,gres/gpu=8", Fairshare="1"),
        row("physics", "alice"),
        row("physics", "bob", partition="batch"),
    ]
)
PRESENT = Present(frozenset({"lab"}), parse_associations(TABLE))
PHYSICS = Account("physics", users=("alice",), limits={"GrpTRES": "gres/gpu=8,cpu=64"})


def whats(accounts, present=PRESENT, cluster="lab"):
    return [step.what for step in plan(cluster, accounts, present)]


def test_database_as_declared_needs_nothing():
    assert whats([PHYSICS]) == []


def test_new_cluster_gets_everything_parents_first():
    accounts = [Account("optics", parent="physics", users=("bob",)), PHYSICS]
    assert whats(accounts, Present()) == [
        "add cluster lab",
        "add account physics",
        "add user alice to physics",
        "add account optics",
        "add user bob to optics",
    ]


def test_words_of_a_new_account():
    (step,) = plan("lab", [Account("optics", limits={"MaxJobs": "5"}, description="light")], PRESENT)
    assert step.words == (
        *("add", "account", "optics", "Cluster=lab", "Parent=root"),
        *("Description=light", "Organization=optics", "MaxJobs=5"),
    )


def test_limit_and_parent_are_set_where_they_differ():
    physics = Account("physics", parent="science", limits={"GrpTRES": "cpu=32"})
    steps = plan("lab", [Account("science"), physics], PRESENT)
    assert [step.what for step in steps][1:] == ["set Parent=science GrpTRES=cpu=32 of physics"]
    assert steps[1].words[:5] == ("modify", "account", "where", "Account=physics", "Cluster=lab")


def test_what_is_not_declared_stays():
    assert whats([]) == [] and whats([Account("physics")]) == []


def test_user_of_one_partition_alone_is_not_one_of_the_account():
    assert whats([Account("physics", users=("bob",))]) == ["add user bob to physics"]


@pytest.mark.parametrize(
    ("limit", "found", "wanted", "equal"),
    [
        ("GrpTRES", "cpu=1,gres/gpu=2", "gres/gpu=2,cpu=1", True),
        ("GrpTRES", "cpu=1", "cpu=2", False),
        ("QOS", "normal,high", "HIGH,normal", True),
        ("MaxJobs", "", "-1", True),
        ("MaxJobs", "5", "-1", False),
        ("Fairshare", "", "1", True),
        ("MaxWall", "7-00:00:00", "168:00:00", False),
    ],
)
def test_same(limit, found, wanted, equal):
    assert same(limit, found, wanted) is equal


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"name": "Physics"}, "lower case"),
        ({"name": "a b"}, "is no name"),
        ({"name": "x", "users": ["alice,bob"]}, "'alice,bob' is no name"),
        ({"name": "x", "parent": "where=1"}, "is no name"),
        ({"name": "x", "limits": {"GrpNodes": 5}}, "limit GrpNodes, expected one of"),
    ],
)
def test_what_sacctmgr_would_misread_is_refused(data, said):
    with pytest.raises(AccountsError, match=said):
        Account.from_params(data)


def test_nulls_of_a_fleet_file_are_defaults():
    assert Account.from_params({"name": "x", "parent": None, "users": None, "limits": {"maxjobs": 5}}) == Account(
        "x", limits={"MaxJobs": "5"}
    )


@pytest.mark.parametrize(
    ("accounts", "said"),
    [
        ([Account("a", "b"), Account("b", "a")], "each other's parents"),
        ([Account("a", "a")], "each other's parents"),
        ([Account("a", "nobody")], "parent nobody is neither declared nor there"),
        ([Account("a"), Account("a")], "account a is declared twice"),
    ],
)
def test_tree_that_does_not_hang_together_is_refused(accounts, said):
    with pytest.raises(AccountsError, match=said):
        ordered(accounts, PRESENT)


@pytest.mark.parametrize("text", ["physics|alice", "sacctmgr: error: x", TABLE[:20]])
def test_garbled_table_is_an_error(text):
    with pytest.raises(AccountsError, match="columns"):
        parse_associations(text)


def test_parse_clusters():
    assert parse_clusters("lab\nother\n\n") == {"lab", "other"} and parse_clusters("") == frozenset()


def test_associations_have_limits_as_they_are_printed():
    assert PRESENT.account("physics") == Association(
        "physics", parent="root", limits={"Fairshare": "1", "GrpTRES": "cpu=64,gres/gpu=8"}
    )


def test_database_that_does_not_answer_is_an_error():
    refused = Output(stderr="sacctmgr: error: _open_persist_conn: failed: Connection refused", rc=1)
    with pytest.raises(AccountsError, match=r"sacctmgr list cluster: .*Connection refused"):
        Database(FakeHost(answer=refused), "lab", 5).read()
