"""Declared data is typed within the borders, and stays so."""

from tests.architecture.counts import dialects, raw_lookups


def test_nothing_is_looked_up_by_key_beyond_a_border() -> None:
    assert list(raw_lookups()) == []


def test_declared_data_is_read_in_one_way() -> None:
    assert len(list(dialects())) == 1
