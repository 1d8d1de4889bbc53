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

from tests.contracts.table import refuse_unknown
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
    assert [step.what for step in steps][1:] == ["set Parent=science GrpTRES=cpu=32,gres/gpu=-1 of physics"]
    assert steps[1].words[:5] == ("modify", "account", "where", "Account=physics", "Cluster=lab")


class Sacctmgr:
    """A database that merges, refuses and passes down what Slurm's does, from 21.08 to 24.11."""

    def __init__(self):
        self.parents = {"root": ""}
        self.own = {"root": {"QOS": "normal", "Fairshare": "1"}}

    def run(self, argv, timeout_seconds):
        refuse_unknown(argv)
        words = argv[3:]
        if words[:2] == ["list", "cluster"]:
            return Output("lab\n", rc=0)
        if words[:2] == ["list", "associations"]:
            limits = self.own.get if "WOPLimits" in words else self.passed_down
            return Output("\n".join(row(name, parent=up, **limits(name)) for name, up in self.parents.items()), rc=0)
        new = words[:2] == ["add", "account"]
        name = words[2] if new else words[3].partition("=")[2]
        own = {"Fairshare": "1"} if new else dict(self.own[name])
        parent = self.parents.get(name)
        for word in words[3:] if new else words[6:]:
            key, _, value = word.partition("=")
            if key == "Parent":
                parent = value
            elif key in LIMITS:
                if (value == "-1" and (key == "QOS" or "TRES" in key)) or (value == "" and key != "QOS"):
                    return Output(stderr=f" Unknown option: {word}", rc=1)
                own[key] = self.merged(own.get(key, ""), value) if "TRES" in key else value.replace("-1", "")
        self.own[name], self.parents[name] = {**own, "Fairshare": own["Fairshare"] or "1"}, parent
        return Output(rc=0)

    def passed_down(self, name):
        upper = self.passed_down(self.parents[name]) if self.parents[name] else {}
        upper = {key: value for key, value in upper.items() if not key.startswith("Grp")}
        own = {key: value for key, value in self.own[name].items() if value}
        return {
            **upper,
            **{key: self.merged(upper.get(key, ""), own[key]) if "TRES" in key else own[key] for key in own},
        }

    @staticmethod
    def merged(old, new):
        kinds = dict(part.split("=") for part in f"{old},{new}".lower().split(",") if part)
        return ",".join(f"{kind}={value}" for kind, value in sorted(kinds.items()) if value != "-1")


def settle(host, **limits):
    """Return the steps that bring an account to its limits, and what it has then; a second run has no step."""
    database = Database(host, "lab", 5)
    accounts = [Account("physics", limits={"MaxTRES": "node=4"}), Account("optics", parent="physics", limits=limits)]
    steps = plan("lab", accounts, database.read())
    for step in steps:
        database.take(step)
    present = database.read()
    assert plan("lab", accounts, present) == []
    return [step.what for step in steps], present.account("optics").limits


@pytest.mark.parametrize("limit", [limit for limit in LIMITS if "TRES" in limit])
@pytest.mark.parametrize(
    ("wanted", "written", "left"),
    [
        ("cpu=8", "cpu=8,gres/gpu=-1", "cpu=8"),
        ("node=2,CPU=64", "node=2,CPU=64,gres/gpu=-1", "cpu=64,node=2"),
        ("cpu=-1,gres/gpu=4", "gres/gpu=4,cpu=-1", "gres/gpu=4"),
        ("cpu=-1", "cpu=-1,gres/gpu=-1", None),
        ("-1", "cpu=-1,gres/gpu=-1", None),
    ],
)
def test_kind_that_is_no_longer_declared_loses_its_limit(limit, wanted, written, left):
    host = Sacctmgr()
    settle(host, **{limit: "cpu=64,gres/gpu=8"})
    done, limits = settle(host, **{limit: wanted})
    assert done == [f"set {limit}={written} of optics"] and limits.get(limit) == left


def test_limits_of_none_are_taken_away_and_not_written_to_a_new_account():
    host, none = Sacctmgr(), {"QOS": "-1", "MaxJobs": "-1", "GrpTRES": "-1", "DefaultQOS": "-1", "Fairshare": "-1"}
    done, limits = settle(host, **none)
    assert done == ["add account physics", "add account optics"] and limits == {"Fairshare": "1"}
    settle(host, QOS="normal", MaxJobs="5", GrpTRES="cpu=1", DefaultQOS="normal", Fairshare="7")
    done, limits = settle(host, **none)
    assert done == ["set DefaultQOS=-1 Fairshare=-1 GrpTRES=cpu=-1 MaxJobs=-1 QOS= of optics"]
    assert limits == {"Fairshare": "1"}


def test_limit_of_a_parent_is_not_one_of_the_account():
    host = Sacctmgr()
    settle(host, MaxTRES="gres/gpu=8")
    assert settle(host, MaxTRES="gres/gpu=8") == ([], {"Fairshare": "1", "MaxTRES": "gres/gpu=8"})
    assert settle(host, MaxTRES="node=4")[0] == ["set MaxTRES=node=4,gres/gpu=-1 of optics"]


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
        ("Fairshare", "1", "-1", True),
        ("Fairshare", "7", "-1", False),
        ("MaxWall", "7-00:00:00", "168:00:00", False),
        ("GrpTRES", "gres/gpu=2", "cpu=-1,gres/gpu=2", True),
        ("GrpTRES", "", "cpu=-1", True),
        ("GrpTRES", "cpu=1", "cpu=-1", False),
        ("GrpTRES", "cpu=1", "cpu=-10", False),
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
