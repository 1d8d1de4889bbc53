"""JSON as the jsoncpp library writes it, which dcgmi and nvbandwidth print with: sorted keys, a tab for each level."""

from __future__ import annotations

import json
from typing import Any


def styled(value: Any, indent: str = "") -> str:
    """Return ``value`` as text; brackets stand on lines of their own."""
    inner = indent + "\t"
    if isinstance(value, dict) and value:
        members = []
        for key in sorted(value):
            gap = f"\n{inner}" if isinstance(value[key], dict | list) and value[key] else " "
            members.append(f'{inner}"{key}" :{gap}{styled(value[key], inner)}')
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(inner + styled(item, inner) for item in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)
