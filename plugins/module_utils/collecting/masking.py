"""Secrets in what tools print: the values of keys that are called like one, and tokens that are known by their shape.

What is masked keeps its form: JSON stays JSON, XML stays XML, lines stay lines. Every pattern takes time in proportion
to the text: what repeats without a limit stands behind the word that it is found by, and ends where the next begins.
"""

from __future__ import annotations

import re

MASK = "(masked)"

# Anywhere in a key: MY_DB_PASSWORD, rd.iscsi.password_in, AWS_SECRET_ACCESS_KEY.
_ANYWHERE = (
    *("passw(?:or)?d", "passphrase", "secret", "token", "credential", "cookie", "api[ _-]?key", "access[ _-]?key"),
    *("private[ _-]?key", "session[ _-]?key", "pre[ _-]?shared[ _-]?key", "(?:auth|encryption|signing|tls)[_-]key"),
    *(r"(?<!by)pass(?=[ \t]{0,64}=)", r"pw(?=[ \t]{0,64}=)"),
)
# Between other signs than letters: auth= and MY_AUTH=, but neither authority= nor AuthType=.
_WORDS = ("pwd", "pw", "pass", "auth", "authorization", "bearer", "community", "psk", "wpa")
# A line without any of these has nothing to mask; to look for them takes a fraction of what the patterns take.
_HINTS = (
    *("pass", "secret", "token", "credential", "cookie", "key", "pwd", "pw", "auth", "bearer", "community", "psk"),
    *("wpa", "://", "iscsi:", "signature=", "sig=", "akia", "asia", "eyj", "gho_", "ghp_", "ghr_", "ghs_", "ghu_"),
    *("github_pat_", "glpat-", "hf_", "nvapi-", "sk-", "xox", "$1$", "$2", "$5$", "$6$", "$y$", "pbkdf2"),
)

# The set of first letters comes first because a search passes over all others at once.
_NAME = (
    rf"(?=[abcepstw])(?:{'|'.join(_ANYWHERE)}|(?<![a-z0-9])(?:{'|'.join(_WORDS)})(?![a-z]))[\w.-]{{0,40}}(?: String)?"
)
_BLANK = r"[ \t]{0,64}"
_EQUALS = rf"{_BLANK}(?:=>|:=|=){_BLANK}"
_SIGN = rf"{_BLANK}(?:=>|:=|=|:){_BLANK}"
# A quote within a value does not end it, one before a sign that may follow a quoted text does; so does an XML tag.
_INNER = r"""\\[^\s"']|<(?!/)|["'](?=[^\s,;:)}\]/>?"'\\])"""
_WORD = rf"""(?:[^\s"'<\\]|{_INNER})+"""
_REST = rf"""(?:[^\r"'<\\]|{_INNER})+"""
# Masked already, whatever of blanks, quotes and signs was left to the value.
_NEW = rf"""(?![ \t"'=>\\]{{0,72}}{re.escape(MASK)})"""

# By what comes before a value, the value, and what comes after it; one that is masked already stays.
_PATTERNS = tuple(
    re.compile(rf"(?P<before>{before}){_NEW}(?:{value})(?P<after>{after})", re.IGNORECASE)
    for before, value, after in (
        # "password": "x", password='x', psk "x"
        (rf"""{_NAME}["']?(?:{_SIGN}|[ \t]{{1,64}})(?P<quote>["'])""", r"(?:(?!(?P=quote))[^\\]|\\.)+", "(?P=quote)"),
        # password="x y where the quote is not closed
        (rf"""{_NAME}["']?{_SIGN}\"""", r'(?:[^"\\]|\\.)+', r"\\?$"),
        # the same in a JSON text inside a JSON text: \"password\": \"x\"
        (
            rf"""{_NAME}(?:\\{{1,8}}["'])?{_SIGN}(?P<quote>\\{{1,8}}["'])""",
            "(?:(?!(?P=quote)).)+",
            '(?P=quote)|(?=")|$',
        ),
        # "tokens": ["x", "y"]
        (rf'{_NAME}"{_SIGN}\[{_BLANK}"', r"[^\[\]{}]+", rf'"{_BLANK}\]'),
        # password=x, password = x
        (rf"{_NAME}{_EQUALS}", _WORD, ""),
        # Authorization: Basic x, SNMP Community String   : x
        (rf"{_NAME}{_BLANK}:{_BLANK}", _REST, ""),
        # --password x, "--password", "x"
        (rf"""(?<![\w-])--[\w.-]{{0,64}}?{_NAME}["']?,?[ \t]{{1,64}}["']?""", rf"(?!-){_WORD}", ""),
        # password x (netrc), password user x and password_pbkdf2 user x (grub.cfg)
        (r"^[ \t]{0,64}password(?:_pbkdf2)?(?:[ \t]{1,64}[^\s]{1,256})?[ \t]{1,64}", _WORD, r"[ \t]{0,64}\r?$"),
        # machine a login b password x (netrc)
        (r"\blogin[ \t]{1,64}[^\s]{1,256}[ \t]{1,64}password[ \t]{1,64}", _WORD, ""),
        # <password>x</password>
        (rf"<[\w:.-]{{0,64}}?{_NAME}(?:\s[^<>]{{0,256}})?>", "[^<>]+", "</"),
        (r"(?<![a-z0-9])bearer[ \t]{1,64}", r"[\w.~+/=-]{8,}", ""),
        # https://user:x@host, and netroot=iscsi:user:x@host of a kernel command line
        (r"""(?:://|iscsi:)[^\s/:@"'<>]{0,256}:""", r"""[^\s/"'<>]{1,512}""", "@"),
        (r"[?&](?:x-amz-|x-goog-)?sig(?:nature)?=", _WORD, ""),
        # of crypt(5) and of grub
        (r"(?<!\w)", r"\$(?:1|2[abxy]|5|6|y)\$[\w./$=,+-]{8,}|grub\.pbkdf2\.[\w.]{8,}", ""),
        # of GitHub, GitLab, Hugging Face, NVIDIA, OpenAI, Slack, AWS, and JSON Web Tokens
        (
            r"(?<![\w-])",
            r"gh[oprsu]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[a-z0-9]{20,}|nvapi-[\w-]{20,}|sk-[\w-]{20,}"
            r"|xox[abeoprs]-[\w-]{10,}|(?-i:A[KS]IA[A-Z0-9]{16})\b|(?-i:eyJ)[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?",
            "",
        ),
    )
)
# "password": 1234
_NUMBER = re.compile(rf'({_NAME}"{_BLANK}:{_BLANK})-?[0-9][0-9.eE+-]*', re.IGNORECASE)
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----).)*(?:-----END [A-Z0-9 ]{0,60}-----)?", re.DOTALL
)


def masked(text: str) -> tuple[str, int]:
    """Return the text with ``(masked)`` for every secret, and how many there were; what is masked stays as it is."""
    text, total = _KEY_BLOCK.subn(MASK, text)
    lower = text.lower()
    hints = [hint for hint in _HINTS if hint in lower]
    if not hints:
        return text, total
    lines = text.split("\n")
    for index, line in enumerate(lines):
        lower = line.lower()
        if any(hint in lower for hint in hints):
            lines[index], count = _masked_line(line)
            total += count
    return "\n".join(lines), total


def _masked_line(line: str) -> tuple[str, int]:
    line, total = _NUMBER.subn(rf'\1"{MASK}"', line)
    for pattern in _PATTERNS:
        line, count = pattern.subn(rf"\g<before>{MASK}\g<after>", line)
        total += count
    return line, total
