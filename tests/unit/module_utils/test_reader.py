"""The reader of declared data: what it takes, and how it names what it does not."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import (
    AboveZero,
    Converted,
    Count,
    Number,
    Positive,
    ReadError,
    Rule,
    Text,
    between,
    check_keys,
    matching,
    read,
    read_as,
)


@dataclass(frozen=True)
class Part:
    slot: Text
    address: Annotated[str, matching("[0-9a-f]{4}", "four digits")]


@dataclass(frozen=True)
class Rack:
    class_: Text
    count: Positive
    parts: tuple[Part, ...]
    watts: Count | None
    limits: Mapping[str, Number]
    pair: tuple[int, int] | None = None
    colour: Literal["red", "green"] = "red"
    level: Annotated[int, between(1, 4)] = 4
    note: str = ""
    door: bool = False
    tags: Annotated[Sequence[Text], Rule("at least one entry", bool)] = ("x",)
    size: AboveZero | None = 1.5
    more: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.parts) != self.count:
            raise ReadError("parts", f"{len(self.parts)} parts", f"{self.count}, as count says")


class FaultyRack(ReadError):
    """What a caller calls its own."""


GOOD = {
    "class": "a",
    "count": 1,
    "parts": [{"slot": "one", "address": "00ff"}],
    "watts": None,
    "limits": {"x": 0.5, "y": 1},
}


def test_mapping_becomes_dataclass_with_defaults_and_tuples():
    assert read(Rack, json.loads(json.dumps(GOOD))) == Rack("a", 1, (Part("one", "00ff"),), None, {"x": 0.5, "y": 1})
    assert read(Rack, {**GOOD, "pair": [1, 2]}).pair == (1, 2)


def test_null_is_the_default_where_the_field_takes_no_null():
    rack = read(Rack, {**GOOD, "note": None, "tags": None, "size": None, "pair": None})
    assert (rack.note, rack.tags, rack.size, rack.pair) == ("", ("x",), None, None)


def test_extra_keys_of_a_program_are_passed_over_and_all_else_is_asked_for():
    more = {**GOOD, "parts": [{**GOOD["parts"][0], "worst": 1}], "began": 1.5}
    assert read(Rack, more, extra=True) == read(Rack, GOOD)
    with pytest.raises(ReadError, match=r'unknown key "(began|worst)"'):
        read(Rack, more)
    with pytest.raises(ReadError, match=r"^parts\[0\].address: found nothing"):
        read(Rack, {**GOOD, "parts": [{"slot": "one", "worst": 1}]}, extra=True)
    with pytest.raises(ReadError, match="key 1, expected a text key"):
        read(Rack, {**GOOD, 1: 2}, extra=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"class": ""}, 'class: found "", expected text'),
        ({"class": None}, "class: found nothing, expected text"),
        ({"count": True}, "count: found true, expected a whole number of at least 1"),
        ({"count": 1.0}, "count: found 1.0, expected a whole number of at least 1"),
        ({"count": 0}, "count: found 0, expected a whole number of at least 1"),
        ({"count": "1"}, 'count: found "1", expected a whole number of at least 1'),
        ({"count": 2}, "parts: found 1 parts, expected 2, as count says"),
        ({"parts": None}, "parts: found nothing, expected a list"),
        ({"parts": "x"}, 'parts: found "x", expected a list'),
        ({"parts": {}}, "parts: found a mapping, expected a list"),
        ({"parts": [7]}, "parts[0]: found 7, expected a mapping"),
        ({"parts": [{"slot": "one"}]}, "parts[0].address: found nothing, expected four digits"),
        ({"parts": [{"slot": "one", "address": "00FF"}]}, 'parts[0].address: found "00FF", expected four digits'),
        ({"parts": [{"slot": "one", "address": "00ff\n"}]}, 'parts[0].address: found "00ff\\n", expected four digits'),
        ({"parts": [{"slot": 1, "address": "00ff"}]}, "parts[0].slot: found 1, expected text"),
        ({"watts": -1}, "watts: found -1, expected a whole number of at least 0, or null"),
        ({"watts": "x"}, 'watts: found "x", expected a whole number of at least 0, or null'),
        ({"limits": []}, "limits: found an empty list, expected a mapping"),
        ({"limits": {"x": float("nan")}}, "limits.x: found NaN, expected a number of at least 0"),
        ({"limits": {"x": float("inf")}}, "limits.x: found Infinity, expected a number of at least 0"),
        ({"limits": {"x": None}}, "limits.x: found nothing, expected a number of at least 0"),
        ({"limits": {1: 1}}, "limits: found key 1, expected a text key"),
        ({"pair": [1]}, "pair: found a list, expected a list of 2, or null"),
        ({"pair": [1, "2"]}, 'pair[1]: found "2", expected a whole number'),
        ({"colour": "blue"}, 'colour: found "blue", expected one of red, green'),
        ({"colour": ["red"]}, "colour: found a list, expected one of red, green"),
        ({"level": 5}, "level: found 5, expected a whole number from 1 to 4"),
        ({"door": 1}, "door: found 1, expected true or false"),
        ({"tags": []}, "tags: found an empty list, expected at least one entry"),
        ({"tags": [""]}, 'tags[0]: found "", expected text'),
        ({"size": 0}, "size: found 0, expected a number above 0, or null"),
        ({"cout": 1}, 'found unknown key "cout", expected one of class, count, parts'),
        ({"class_": 1}, 'found unknown key "class_", expected one of class, count, parts'),
    ],
)
def test_fault_is_named_by_path_found_and_expected(change, message):
    with pytest.raises(ReadError) as caught:
        read(Rack, {**GOOD, **change})
    assert str(caught.value).startswith(message)


def test_unknown_key_is_told_the_nearest():
    with pytest.raises(ReadError, match=r"did you mean count\?"):
        read(Rack, {**GOOD, "cout": 1})


@pytest.mark.parametrize("key", sorted(GOOD))
def test_missing_key_is_named_with_what_belongs_there(key):
    with pytest.raises(ReadError, match=f"^{key}: found nothing, expected [at]"):
        read(Rack, {name: value for name, value in GOOD.items() if name != key})


@pytest.mark.parametrize("data", [None, [], "x", 3, float("nan")])
def test_what_is_no_mapping_is_refused(data):
    with pytest.raises(ReadError, match=r"^fleet.yml: racks\[2\]: found .*, expected a mapping$"):
        read(Rack, data, "racks[2]", "fleet.yml")


def test_error_has_file_path_found_and_expected():
    with pytest.raises(ReadError) as caught:
        read(Rack, {**GOOD, "parts": [{"slot": "one", "address": 9}]}, "racks[2]", "fleet.yml")
    error = caught.value
    assert (error.file, error.path, error.found, error.expected) == (
        "fleet.yml",
        "racks[2].parts[0].address",
        "9",
        "four digits",
    )
    assert str(error) == "fleet.yml: racks[2].parts[0].address: found 9, expected four digits"


def test_class_of_an_error_is_kept_on_its_way_out():
    def faulty(value: Any) -> Any:
        raise FaultyRack("", "a fault", "none")

    with pytest.raises(FaultyRack, match=r"^\[1\]: found a fault, expected none$"):
        read_as(tuple[int, Annotated[str, Converted("a name", faulty)]], [1, "x"])


def test_converted_is_read_by_its_function():
    hint = Annotated[tuple[str, ...], Converted("names with commas", lambda value: tuple(value.split(",")))]
    assert read_as(hint, "a,b") == ("a", "b")


def test_closed_mapping_has_exactly_its_keys():
    hint = Mapping[Literal["a", "b"], Count | None]
    assert read_as(hint, {"b": None, "a": 1}) == {"b": None, "a": 1}
    with pytest.raises(ReadError, match=r"^b: found nothing, expected a value$"):
        read_as(hint, {"a": 1})
    with pytest.raises(ReadError, match=r'^found unknown key "c", expected one of a, b$'):
        read_as(hint, {"a": 1, "b": 1, "c": 1})


def test_keys_of_a_mapping_follow_their_rule():
    with pytest.raises(ReadError, match=r'^found key "X", expected small letters$'):
        read_as(Mapping[Annotated[str, matching("[a-z]+", "small letters")], int], {"a": 1, "X": 2})


def test_union_takes_the_first_that_fits():
    hint = str | int | float | None
    assert [read_as(hint, value) for value in ("x", 1, 1.5, None)] == ["x", 1, 1.5, None]
    with pytest.raises(ReadError, match=r"^found true, expected text or a whole number or a number, or null$"):
        read_as(hint, True)


def test_number_keeps_its_type():
    assert isinstance(read_as(Number, 3), int)
    with pytest.raises(ReadError):
        read_as(Number, 10**400)


def test_keys_can_be_checked_alone():
    with pytest.raises(ReadError, match=r"did you mean one\?"):
        check_keys({"on": 1}, ("one", "two"))
    with pytest.raises(ReadError, match=r"^found a list, expected a mapping$"):
        check_keys([1], ())
