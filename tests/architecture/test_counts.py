"""Where declared data is typed, it stays so."""

from tests.architecture.counts import CONVERTED, raw_lookups


def test_converted_packages_look_nothing_up_by_key() -> None:
    assert [each for each in raw_lookups() if each[0].split("/")[1] in CONVERTED] == []
