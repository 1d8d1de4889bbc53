import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.node_names import NAMES_LIMIT, PatternError, expand


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("ctl", ["ctl"]),
        ("gpu-[08-10]", ["gpu-08", "gpu-09", "gpu-10"]),
        ("gpu-[8-10]", ["gpu-8", "gpu-9", "gpu-10"]),
        ("n[3]", ["n3"]),
        ("Ethernet[0-16:8]", ["Ethernet0", "Ethernet8", "Ethernet16"]),
        ("n[1,3,7-8]x", ["n1x", "n3x", "n7x", "n8x"]),
        ("p[1-2]-r[1-2]", ["p1-r1", "p1-r2", "p2-r1", "p2-r2"]),
        ("172.[16-17].0.1/16", ["172.16.0.1/16", "172.17.0.1/16"]),
    ],
)
def test_pattern_gives_names(pattern: str, names: list[str]) -> None:
    assert expand(pattern) == names


def test_large_pattern_keeps_its_width() -> None:
    names = expand("gpu-[0001-3072]")
    assert (len(names), names[0], names[-1]) == (3072, "gpu-0001", "gpu-3072")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("gpu-[01-04", "brackets in pairs"),
        ("gpu-01]", "brackets in pairs"),
        ("Ethernet[0-15:8]", "a step of at least 1 that leads to the upper end"),
        ("Ethernet[0-16:0]", "a step of at least 1 that leads to the upper end"),
        ("gpu-[]", "numbers and ranges"),
        ("gpu-[a-c]", "numbers and ranges"),
        ("gpu-[1-2-3]", "numbers and ranges"),
        ("gpu-[4-1]", "the lower end first, [1-4]"),
        ("gpu-[01-100]", "both ends of one width"),
        (f"gpu-[1-{NAMES_LIMIT + 1}]", f"at most {NAMES_LIMIT} names"),
        ("gpu-[1-999]-[1-999]", f"at most {NAMES_LIMIT} names"),
    ],
)
def test_bad_pattern_says_what_is_expected(pattern: str, expected: str) -> None:
    with pytest.raises(PatternError) as caught:
        expand(pattern)
    assert expected in caught.value.expected
    assert pattern in caught.value.found
