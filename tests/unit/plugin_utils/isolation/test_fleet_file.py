"""Fleets in files: what others write is played, what is wrong in it is told, what is saved reads as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.isolation.__main__ import main
from tests.isolation.campaign import ROOT
from tests.isolation.faults import NAMED, Hangs, Slow, Tails
from tests.isolation.fleet import Fleet, Spec
from tests.isolation.fleet_file import HEADER, KINDS, VALUES, FleetLineError, read_fleet, written_fleet

EXAMPLE = ROOT / "tests/isolation/example.jsonl"
HEAD = '{"hosts": 8, "hosts_per_rack": 2, "racks_per_pod": 2, "rails": 4}\n'


def fleet_in(place: Path, text: str) -> Path:
    file = place / "fleet.jsonl"
    file.write_text(text)
    return file


def test_example_is_played_and_all_of_it_becomes_what_it_should(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--fleet", str(EXAMPLE), "--fleets", "2", "--seed", "1"]) == 0
    said = capsys.readouterr().out
    for node, became in (("h03", "rejected"), ("h09", "rejected"), ("h14", "held"), ("h22", "held")):
        assert f"{node}      expected {became:16} became {became:16} in 2" in said
    assert "2 campaigns of" in said


def test_hosts_racks_and_pods_are_names_of_who_has_a_fault(tmp_path: Path) -> None:
    lines = '{"slow": ["r001", "h8"], "by": 0.1, "to": ["p00"], "when": 0.5}\n\n{"hangs": ["h3"], "after": 4}\n'
    spec, faults = read_fleet(fleet_in(tmp_path, HEAD + lines + '{"tails": 0.02}\n'))
    assert (spec.hosts, spec.rack, spec.pod, spec.rails, spec.noise) == (8, 2, 2, 4, 0.01)
    slow = Slow(("h3", "h4", "h8"), 0.1, to=("h1", "h2", "h3", "h4"), when=0.5)
    assert faults == [slow, Hangs(("h3",), after=4), Tails(0.02)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: hosts: found nothing, expected a whole number from 2 to 4096"),
        ('{"rails": 8}', "line 1: hosts: found null, expected a whole number from 2 to 4096"),
        ('{"hosts": 1}', "line 1: hosts: found 1, expected a whole number from 2 to 4096"),
        ('{"hosts": 8, "rack": 4}', "line 1: rack: found 4, expected one of hosts, rails, hosts_per_rack"),
        ('{"hosts": 8', "line 1: not JSON"),
        ("[8]", "line 1: line: found [8], expected an object"),
        (HEAD + '{"slow": ["h9"], "by": 0.1}', 'line 2: slow: found "h9", expected the name of a host, rack or pod'),
        (HEAD + '{"slow": [], "by": 0.1}', "line 2: slow: found [], expected a list of hosts, racks or pods"),
        (HEAD + '{"slow": "h1", "by": 0.1}', 'line 2: slow: found "h1", expected a list of hosts, racks or pods'),
        (HEAD + '\n{"slow": ["h1"]}', "line 3: by: found null, expected a number between 0 and 1"),
        (HEAD + '{"slow": ["h1"], "by": 10}', "line 2: by: found 10, expected a number between 0 and 1"),
        (HEAD + '{"slow": ["h1"], "by": true}', "line 2: by: found true, expected a number between 0 and 1"),
        (HEAD + '{"slow": ["h1"], "by": 0.1, "rails": [4]}', "line 2: rails: found [4], expected a list"),
        (HEAD + '{"slow": ["h1"], "by": 0.1, "bytes": [8]}', "line 2: bytes: found [8], expected a list"),
        (HEAD + '{"slow": ["h1"], "by": 0.1, "who": ["h2"]}', 'line 2: who: found ["h2"], expected one of slow, by'),
        (
            HEAD + '{"slow": ["h1"], "by": 0.1, "expect": "fine"}',
            'line 2: expect: found "fine", expected one of rejected',
        ),
        (HEAD + '{"slow": ["h1"], "by": 0.1, "dead": ["h2"]}', 'line 2: kind: found ["by", "dead", "slow"], expected'),
        (HEAD + '{"late": ["h1"]}', 'line 2: kind: found ["late"], expected exactly one of slow, hangs'),
        (HEAD + '{"hangs": ["h1"], "where": "there"}', 'line 2: where: found "there", expected one of walk, inside'),
        (HEAD + '{"clock": ["h1"]}', "line 2: runs: found null, expected a number between 0 and 10"),
        ('{"hosts": 8, "noise": NaN}', "line 1: noise: found NaN, expected a number from 0 to 0.2"),
        ('{"hosts": -8}', "line 1: hosts: found -8, expected a whole number from 2 to 4096"),
        ("[" * 100_000, "line 1: not JSON"),
        (HEAD + '{"slow": ["h1"], "by": 0.1, "by": 0.2}', "line 2: by: found 0.2, expected the key once"),
        (HEAD + '{"slow": ["h1"], "by": 0.1, "when": 0}', "line 2: when: found 0, expected a number over 0, at most 1"),
        (HEAD + '{"slow": ["h1"], "by": 0.1, "to": ["h1"]}', 'line 2: to: found ["h1"], expected somebody else than'),
        (HEAD + '{"dead": ["h1"], "expect": "rejected"}', 'line 2: expect: found "rejected", expected one of held'),
    ],
)
def test_what_is_wrong_in_a_file_is_told_by_line_and_key(
    tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = fleet_in(tmp_path, text)
    with pytest.raises(FleetLineError) as raised:
        read_fleet(file)
    assert str(raised.value).startswith(f"{file}, {said}")
    assert main(["--fleet", str(file)]) == 2
    assert said in capsys.readouterr().out


def test_file_that_is_no_text_is_told_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "fleet.jsonl"
    file.write_bytes(HEAD.encode() + b"\xff\xfe\x00\n")
    with pytest.raises(FleetLineError, match=r"fleet.jsonl, line 2: not JSON \('utf-8' codec"):
        read_fleet(file)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--hosts", "x"], "--hosts: found x, expected a whole number from 2 to 4096"),
        (["--hosts", "8,1"], "--hosts: found 1, expected a whole number from 2 to 4096"),
        (["--noise", "-1"], "--noise: found -1.0, expected a number from 0 to 0.2"),
        (["--fleets", "0"], "--fleets: found 0, expected 1 or more"),
        (["--fault", "none"], "--fault: found none, expected some of clean"),
    ],
)
def test_option_that_cannot_be_played_is_told(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("fault", NAMED)
@pytest.mark.parametrize("hosts", [8, 48, 232])
def test_saved_fleet_is_the_one_that_was_saved(tmp_path: Path, hosts: int, fault: str) -> None:
    file = tmp_path / f"{fault}.jsonl"
    arguments = ["--hosts", str(hosts), "--fault", fault, "--seed", "3", "--save", str(file)]
    assert main(arguments) == 0
    fleet = Fleet(Spec.usual(hosts, fault, 0.01), 3)
    spec, faults = read_fleet(file)
    assert spec == fleet.spec
    again = Fleet(spec, 3, faults)
    assert again.truth == fleet.truth
    assert (again.speed == fleet.speed).all()
    assert (again.clock == fleet.clock).all()


def test_admitted_bad_node_of_a_file_ends_with_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # As much as nothing, and still said to be bad.
    file = fleet_in(tmp_path, HEAD + '{"slow": ["h2"], "by": 0.001, "expect": "rejected"}\n')
    assert main(["--fleet", str(file), "--fleets", "1"]) == 1
    assert "expected rejected         became passed" in capsys.readouterr().out


def test_every_key_of_the_format_is_documented() -> None:
    page = (ROOT / "docs/isolation.md").read_text()
    section = page.partition("## Fleets in files")[2]
    assert not [key for key in (*HEADER, *KINDS, *VALUES, "rails", "to") if f"`{key}`" not in section]
    shown = [line.strip() for line in section.splitlines() if line.startswith('    {"')]
    assert shown == EXAMPLE.read_text().splitlines()


def test_what_is_written_is_json_lines() -> None:
    spec = Spec.usual(32, "file", 0.01)
    text = written_fleet(spec, [Slow(("h01", "h02", "h03", "h04", "h09"), 0.1)])
    assert [json.loads(line) for line in text.splitlines()] == [
        {"hosts": 32, "noise": 0.01, "rails": 8, "hosts_per_rack": 4},
        {"slow": ["r000", "h09"], "by": 0.1, "expect": "rejected"},
    ]
