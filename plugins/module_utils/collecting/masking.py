"""Secrets in what tools print: the values of keys that are called like one, and tokens that are known by their shape.

What is masked keeps its form: JSON stays JSON, XML stays XML, lines stay lines. Every pattern takes time in proportion
to the text: what repeats without a limit stands behind the word that it is found by, and ends where the next begins.
Not masked are prose (``password for root is X``) and the values of short options other than those named below.
A check judges what the kernel says, so in the kernel's own lines nothing is masked because of a colon before it:
``secretd: page allocation failure`` begins with a program's name.
"""

from __future__ import annotations

import re

MASK = "(masked)"

_BLANK = r"[ \t]{0,64}"
# WANDB_KEY, AccountKey, but neither InfiniBand's P_Key and mkey, Slurm's WCKey nor a public key.
_KEY = (
    r"(?=key)(?:(?<=[a-z0-9])|(?<=[a-z0-9][_-]))(?<!(?<![a-z])[a-z])(?<!(?<![a-z])[a-z][_-])"
    r"(?<!wc)(?<!pub)(?<!public)(?<!public[_-])key"
)
# Anywhere in a key: MY_DB_PASSWORD, rd.iscsi.password_in, AWS_SECRET_ACCESS_KEY.
_ANYWHERE = (
    *("passw(?:or)?d", "passphrase", "secret", "token(?!iz)", "credential", "cookie", "api[ _-]?key"),
    *("access[ _-]?key", "private[ _-]?key", "session[ _-]?key", "pre[ _-]?shared[ _-]?key"),
    *("(?:auth|encryption|signing|tls)[_-]key", "(?=p[aw])(?:(?<=bind)|(?<=db)|(?<=require)|(?<=root))p(?:ass|w)"),
    *(rf"(?<!by)pass(?={_BLANK}=)", rf"(?:pw|{_KEY}|jwt)(?={_BLANK}=)"),
)
# Between other signs than letters: auth= and MY_AUTH=, but neither authority= nor AuthType=.
_WORDS = ("pwd", "pw", "pass", "auth", "authorization", "bearer", "community", "psk", "wpa")
# A line without any of these has nothing to mask; to look for them takes a fraction of what the patterns take.
_HINTS = (
    *("pass", "secret", "token", "credential", "cookie", "key", "pwd", "pw", "auth", "bearer", "community", "psk"),
    *("wpa", "jwt", "//", "iscsi:", "signature=", "sig=", "curl", "cryptomount", "akia", "asia", "aiza", "eyj"),
    *("gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-", "hf_", "nvapi-", "sk-", "k_live_", "k_test_"),
    *("xox", "hvs.", "hvb.", "dckr_pat_", "npm_", "dhhc-1:", "$1$", "$2", "$5$", "$6$", "$7$", "$y$", "$gy$"),
    *("$argon2", "pbkdf2", "{ssha", "{sha", "{smd5", "{md5", "{crypt"),
)

# The set of first letters comes first because a search passes over all others at once.
_NAME = (
    rf"(?=[abcejkpstw])(?:{'|'.join(_ANYWHERE)}|(?<![a-z0-9])(?:{'|'.join(_WORDS)})(?![a-z]))"
    r"[\w.-]{0,40}(?: String)?"
)
_EQUALS = rf"{_BLANK}(?:=>|:=|=){_BLANK}"
_SIGN = rf"{_BLANK}(?:=>|:=|=|:){_BLANK}"
# A quote within a JSON text inside a JSON text, or within an XML text.
_ESCAPED_QUOTE = r"""(?:\\{1,8}["']|&(?:quot|apos|#3[49]);)"""
# A quote within a value does not end it, one before a sign that may follow a quoted text does; so does an XML tag.
_INNER = r"""\\[^\s"']|<(?!/)|["'](?=[^\s,;:)}\]/>?"'\\])"""
_WORD = rf"""(?:[^\s"'<\\]|{_INNER})+"""
_REST = rf"""(?:[^\r"'<\\]|{_INNER})+"""
# Masked already, whatever of blanks, quotes and signs was left to the value.
_NEW = rf"""(?![ \t"'=>\\]{{0,72}}(?:{re.escape(MASK)}|&[a-z0-9#]{{1,6}};{re.escape(MASK)}))"""


def _pattern(before: str, value: str, after: str) -> re.Pattern[str]:
    """Return the pattern by what comes before a value, the value, and what comes after it; a masked value stays."""
    return re.compile(rf"(?P<before>{before}){_NEW}(?:{value})(?P<after>{after})", re.IGNORECASE)


_QUOTED = (
    # "password": "x", password='x', psk "x"
    _pattern(
        rf"""{_NAME}["']?(?:{_SIGN}|[ \t]{{1,64}})(?P<quote>["'])""", r"(?:(?!(?P=quote))[^\\]|\\.)+", "(?P=quote)"
    ),
    # password="x y where the quote is not closed
    _pattern(rf"""{_NAME}["']?{_SIGN}\"""", r'(?:[^"\\]|\\.)+', r"\\?$"),
    # \"password\": \"x\" and password=&quot;x&quot;
    _pattern(
        rf"{_NAME}{_ESCAPED_QUOTE}?(?:{_SIGN}|[ \t]{{1,64}})(?P<quote>{_ESCAPED_QUOTE})",
        r'(?:(?!(?P=quote))(?:[^<"\\]|\\.?|<(?!/)))+',
        '(?P=quote)|(?="|</)|$',
    ),
    # "tokens": ["x", "y"]
    _pattern(rf'{_NAME}"{_SIGN}\[{_BLANK}"', r"[^\[\]{}]+", rf'"{_BLANK}\]'),
    # "password": {"value": "x"}
    _pattern(rf'{_NAME}"{_SIGN}\{{[^{{}}]{{0,256}}?"value"{_SIGN}"', r'(?:[^"\\]|\\.)+', '"'),
    # password=x, password = x
    _pattern(rf"{_NAME}{_EQUALS}", _WORD, ""),
)
_BEHIND_A_COLON = (
    # Authorization: Basic x, SNMP Community String   : x
    _pattern(rf"{_NAME}{_BLANK}:[ \t]{{1,64}}", _REST, ""),
    # password:x, but not NAME:PID of a process
    _pattern(rf"{_NAME}{_BLANK}:", rf"(?![0-9]+(?:[\s\]),]|$))(?=\S){_WORD}", ""),
)
_OTHERS = (
    # --password x, -token x, "--password", "x"
    _pattern(rf"""(?<![\w-])--?[\w.-]{{0,64}}?(?:{_NAME}|{_KEY})["']?,?[ \t]{{1,64}}["']?""", rf"(?!--){_WORD}", ""),
    # sshpass -p x, cryptomount -u y -p x, curl -u user:x
    _pattern(
        r"""\b(?:(?:sshpass|cryptomount)\b.{0,256}?[\s"']-p[\s"',]{0,8}"""
        r"""|curl\b.{0,256}?[\s"'](?:-u|--user)[\s"',=]{0,8}[^\s"':]{1,256}:)""",
        rf"""(?<=')[^']+|(?<=")[^"]+|{_WORD}""",
        "",
    ),
    # password x (netrc), bindpw x (ldap.conf), password user x and password_pbkdf2 user x (grub.cfg)
    _pattern(
        r"^[ \t]{0,64}(?:password(?:_pbkdf2)?|bindpw|rootpw)(?:[ \t]{1,64}[^\s]{1,256})?[ \t]{1,64}",
        _WORD,
        r"[ \t]{0,64}\r?$",
    ),
    # machine a login b password x (netrc)
    _pattern(r"\blogin[ \t]{1,64}[^\s]{1,256}[ \t]{1,64}password[ \t]{1,64}", _WORD, ""),
    # <password>x</password>
    _pattern(rf"<[\w:.-]{{0,64}}?{_NAME}(?:\s[^<>]{{0,256}})?>", "[^<>]+", "</"),
    _pattern(r"(?<![a-z0-9])bearer[ \t]{1,64}", r"[\w.~+/=-]{8,}", ""),
    # https://user:x@host, //user:x@host, and netroot=iscsi:user:x@host of a kernel command line; not host:80/a@b
    _pattern(
        r"""(?://|iscsi:)[^\s/:@"'<>\[]{0,256}:""",
        r"""[^\s/"'<>]{1,512}(?=@)|(?!\d{0,5}/)[^\s@"'<>]{1,256}""",
        "@",
    ),
    _pattern(r"[?&](?:x-amz-|x-goog-)?sig(?:nature)?=", _WORD, ""),
    # of crypt(5), of grub, of LDAP (RFC 2307)
    _pattern(
        r"(?<!\w)",
        r"\$(?:1|2[abxy]|5|6|7|g?y|argon2id?)\$[\w./$=,+-]{8,}|grub\.pbkdf2\.[\w.]{8,}"
        r"|\{(?:S?SHA(?:256|384|512)?|S?MD5|CRYPT)\}[\w./$+=]{8,}",
        "",
    ),
    # of GitHub, GitLab, Hugging Face, NVIDIA, OpenAI, Slack, AWS, Stripe, Vault, Docker, npm, Google, NVMe, and JWTs
    _pattern(
        r"(?<![\w-])",
        r"gh[oprsu]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[a-z0-9]{20,}|nvapi-[\w-]{20,}"
        r"|(?-i:sk-(?=[\w-]*[A-Z])(?=[\w-]*[0-9])[\w-]{20,})|xox[abeoprs]-[\w-]{10,}|(?-i:A[KS]IA[A-Z0-9]{16})\b"
        r"|[rs]k_(?:live|test)_\w{16,}|hv[bs]\.[\w-]{20,}|dckr_pat_[\w-]{16,}|npm_[a-z0-9]{30,}|(?-i:AIza)[\w-]{30,}"
        r"|(?:DHHC|NVMeTLSkey)-1:\d\d:[\w+/=]{8,}:?|(?-i:eyJ)[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?",
        "",
    ),
)
_PATTERNS = (*_QUOTED, *_BEHIND_A_COLON, *_OTHERS)
_KERNEL_PATTERNS = (*_QUOTED, *_OTHERS)
# A line of journalctl -k or syslog, and one of dmesg.
_KERNEL = re.compile(r"(?:\S{1,256}[ \t]{1,64}){0,5}kernel:|\s{0,64}(?:<\d{1,3}>)?\[[ \t]{0,64}\d+\.\d+\]")
# "password": 1234
_NUMBER = re.compile(rf'({_NAME}"{_BLANK}:{_BLANK})-?[0-9][0-9.eE+-]*', re.IGNORECASE)
# "tokens": [ and "password": whose value stands on the lines below, one text on each.
_OPENED = re.compile(rf'{_NAME}"{_BLANK}:{_BLANK}\[?{_BLANK}\r?$', re.IGNORECASE)
_STRING = r'"(?:[^"\\]|\\.)*"'
_ELEMENT = re.compile(rf"([ \t]*)({_STRING})([ \t]*(?:[,\]}}].*|\r?$))")

# A key's lines: a header, or base64 alone or behind what a log puts before it.
_NEW_LINE = r"[ \t]{0,64}(?:\r?\n|(?:\\{1,8}r)?\\{1,8}n)[ \t]{0,64}"
_KEY_LINE = (
    r"(?!-----)(?:(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash|MessageID): [^\n\"\\]*"
    r"|(?:[^\n]{0,128}[ \t])?[\w+/=-]{40,}(?![^\s\\\"'<])|[\w+/=-]*)(?=[ \t]*(?:\r?\n|[\\\"'<]|\Z))"
)
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    rf"(?:(?:(?!-----)[^\n])*-----END [A-Z0-9 ]{{0,60}}-----"
    rf"|(?:{_NEW_LINE}{_KEY_LINE})*(?:{_NEW_LINE}(?:[^\n]{{0,128}}[ \t])?-----END [A-Z0-9 ]{{0,60}}-----)?)"
)


def masked(text: str) -> tuple[str, int]:
    """Return the text with ``(masked)`` for every secret, and how many there were; what is masked stays as it is."""
    text, total = _KEY_BLOCK.subn(MASK, text)
    lower = text.lower()
    hints = [hint for hint in _HINTS if hint in lower]
    if not hints:
        return text, total
    lines = text.split("\n")
    opened = False
    for index, line in enumerate(lines):
        element = _ELEMENT.match(line) if opened else None
        lower = line.lower()
        if element:
            lines[index], count = f'{element[1]}"{MASK}"{element[3]}', int(element[2] != f'"{MASK}"')
            opened = element[3].rstrip().endswith(",")
        elif any(hint in lower for hint in hints):
            lines[index], count = _masked_line(line)
            opened = bool(_OPENED.search(line))
        else:
            count, opened = 0, False
        total += count
    return "\n".join(lines), total


def _masked_line(line: str) -> tuple[str, int]:
    line, total = _NUMBER.subn(rf'\1"{MASK}"', line)
    for pattern in _KERNEL_PATTERNS if _KERNEL.match(line) else _PATTERNS:
        line, count = pattern.subn(rf"\g<before>{MASK}\g<after>", line)
        total += count
    return line, total
