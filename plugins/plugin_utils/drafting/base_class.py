"""The shipped class that a host is nearest to: from it a draft has all that no host tells, floors above all.

Floors are those of a model of GPU: they are never taken from the class of another one.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.draft_error import DraftError
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.part_places import Places
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import read_yaml
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import (
    HARDWARE,
    shipped_classes,
    shipped_values,
)


def nearest_class(model: str | None, places: Places, root: str, extends: str | None = None) -> str:
    """Return the class with the same places, else that of the board or model; ``extends`` asks for one by name.

    ``model`` is that of the GPUs (None: not seen), ``root`` what stands before every path that was read: a class whose
    host is in files has one of its own. Raises DraftError.
    """
    classes = {name: shipped_values(name) for name in shipped_classes()}
    of_model = [name for name, data in classes.items() if model in (None, data["gpu"]["model"])]
    if not of_model:
        known = ", ".join(sorted({data["gpu"]["model"] for data in classes.values()}))
        raise DraftError(f"GPU model is {model}, expected one that a shipped class has floors for: {known}")
    if extends is not None:
        if extends not in classes:
            raise DraftError(f"extends is {extends}, expected one of {', '.join(classes)}")
        if extends not in of_model:
            other = classes[extends]["gpu"]["model"]
            raise DraftError(f"GPU model is {model}, expected {other} of class {extends}: floors are those of a model")
        own = classes[extends]["tools"]["root"]
        if own not in ("/", root):
            raise DraftError(f"hosts were read below {root}, expected {own}: class {extends} is of hosts in files")
        return extends
    exact = [name for name in of_model if classes[name]["tools"]["root"] == root and has_places(classes[name], places)]
    if model is None and len(exact) != 1:
        found = f"classes with the same places: {', '.join(exact) or 'none'}"
        raise DraftError(f"GPU model could not be read, {found}; expected one: name a class with --extends CLASS")
    boards = [name for name in of_model if not classes[name]["gpu"]["parts"]]
    # A model of GPU that is sold with its host alone has no class of a board.
    return exact[0] if exact else _board(boards or of_model)


def has_places(data: dict[str, Any], places: Places) -> bool:
    """Return whether a class has its GPUs exactly where these are, and so the rails, where it says where they are."""
    rails = [rail["address"] for rail in _rails(data)]
    return has_gpus(data, places) and (not rails or rails == list(places.rails))


def has_gpus(data: dict[str, Any], places: Places) -> bool:
    """Return whether a class has its GPUs at exactly these addresses."""
    return sorted(part["address"] for part in data["gpu"]["parts"] or ()) == sorted(places.addresses)


def _rails(data: dict[str, Any]) -> list[dict[str, Any]]:
    rails = (data["nic"] or {}).get("rails") or []
    return sorted(rails, key=lambda rail: rail["rail"])


def _board(names: list[str]) -> str:
    """Return that of the classes without places which extends none of the others."""
    return next(name for name in names if read_yaml(HARDWARE / f"{name}.yml").get("extends") not in names)
