"""The root of every error that Muster raises."""

from __future__ import annotations


class MusterError(Exception):
    """What Muster cannot do with what it found; a border catches this class once and shows the text as it is.

    The text is one line that names what is wrong, where, what was found and what was expected, and then, where it is
    known, what to do: ``rail 3 (mlx5_3): link rate 200 Gb/s, expected 400``. A class of its own stands for what a
    caller treats differently. Errors about a value are ValueErrors too.
    """
