"""Declared data is typed within the borders, and stays so."""

from tests.architecture.counts import raw_lookups


def test_nothing_is_looked_up_by_key_beyond_a_border() -> None:
    assert list(raw_lookups()) == []
