"""What the processes of one round know and nobody else: by it they tell each other from whoever connects to them.

The module that starts a round makes it up, and srun carries it in the environment, which Linux shows to the same user
alone; a command line is for everybody to read. It never crosses a connection, what was made of it does.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

VARIABLE = "MUSTER_ROUND_SECRET"
# Of a sealed text: one line, as it may end up in a verdict.
LONGEST_TEXT = 300


def new_secret() -> str:
    """Return the secret of one round."""
    return secrets.token_hex(16)


def word(secret: str, what: str) -> str:
    """Return a word for ``what`` that nobody can guess without the secret, nor the secret by the word."""
    return hmac.new(secret.encode(), what.encode(), hashlib.sha256).hexdigest()


def sealed(secret: str, text: str) -> str:
    """Return a text for ``opened``, cut to one that fits a verdict."""
    text = text[:LONGEST_TEXT]
    return f"{word(secret, text)} {text}"


def opened(secret: str, data: bytes) -> str | None:
    """Return the text in ``data``, printable, or None for what nobody of the round has sealed."""
    seal, _, text = data[: 8 * LONGEST_TEXT].decode(errors="replace").partition(" ")
    if not hmac.compare_digest(seal.encode(), word(secret, text).encode()):
        return None
    return "".join(each if each.isprintable() else "?" for each in text)
