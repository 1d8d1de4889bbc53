"""The GIDs of a rail's port as sysfs has them, and the one by which a RoCE port reaches itself.

Files: Linux, Documentation/ABI/stable/sysfs-class-infiniband (``gids``, ``gid_attrs/types``, ``gid_attrs/ndevs``).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from .perftest import PerftestError, gid_index_of


def read_gids(device: str, root: str) -> dict[int, tuple[str, str]]:
    """Return the text and the type of each GID in use, by index; ``root`` stands before /sys."""
    port = _port(device, root)
    found: dict[int, tuple[str, str]] = {}
    for path in (port / "gid_attrs/types").glob("*"):
        # An index that holds no GID gives an error instead of a type.
        with suppress(OSError, ValueError):
            gid = (port / "gids" / path.name).read_text(encoding="ascii").strip()
            found[int(path.name)] = (gid, path.read_text(encoding="ascii"))
    return found


def own_gid_index(device: str, interface: str | None, root: str) -> int | None:
    """Return the index of the RoCE v2 GID that has an IPv4 address of ``interface``, the rail's own.

    None where the port is no Ethernet port and needs no GID. Raises PerftestError where there is none.
    """
    import ipaddress  # noqa: PLC0415 -- start-up budget

    port = _port(device, root)
    try:
        if (port / "link_layer").read_text(encoding="ascii").strip() != "Ethernet":
            return None
    except (OSError, ValueError) as exc:
        raise PerftestError(f"link layer of {device}: {exc}") from exc
    gids = read_gids(device, root)
    for index, (text, _) in sorted(gids.items()):
        with suppress(OSError, ValueError, PerftestError):
            address = ipaddress.IPv6Address(text).ipv4_mapped
            if address and (port / f"gid_attrs/ndevs/{index}").read_text(encoding="ascii").strip() == interface:
                return gid_index_of({index: gids[index]}, str(address))
    raise PerftestError(f"no GID of type RoCE v2 with an IPv4 address of {interface} among {len(gids)}")


def _port(device: str, root: str) -> Path:
    return Path(root, "sys/class/infiniband", device, "ports/1")
