"""A command without its secrets. Runs at the start of every Python: nothing is imported unless an
argument looks as if it had one."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

HIDDEN = "***"
_LONGEST_ARGUMENT = 256
_MOST_ARGUMENTS = 24

_WORDS = (
    "token", "secret", "passw", "passphrase", "credential", "api_key", "api-key", "apikey",
    "access_key", "access-key", "accesskey", "private_key", "private-key", "authorization",
    "bearer", "pwd",
)  # fmt: skip
# Of arguments alone: --auth x, --wandb-key=x; in a text they would hide too much.
_NAMES = ("auth", "key", "pat", "pw")
# How the secrets of well-known services begin, and a user with a password in an address.
_SIGNS = (
    "hf_", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "sk-", "xox", "akia",
    "asia", "eyj", "plk_", "aiza", "://",
)  # fmt: skip
_IN_A_TEXT = (
    # "password": "x", token=x, MY_SECRET: x
    r"(?i)((?:token(?!iz)|secret|passw|passphrase|credential|api[_-]?key|access[_-]?key|private[_-]?key|"
    r"authorization|pwd)[\w.\]-]*[\"']?\]?\s*[=:]\s*(?:(?:bearer|basic)\s+)?)"
    r"(\"[^\"]*\"?|'[^']*'?|[^\s,;&\"'}]+)",
    r"(?i)(\bbearer\s+)([^\s\"',;]+)",
    r"(://)([^/\s@]+)(?=@)",
    r"()\b((?:hf|gh[pousr]|github_pat|plk)_\w{8,}[\w-]*|(?:glpat-|sk-|xox[a-z]-)[\w-]{8,}|"
    r"A(?:KIA|SIA|Iza)[\w-]{12,}|eyJ[\w-]{8,}\.[\w.-]+)",
)


def without_secrets(command: "Sequence[str]") -> list[str]:
    """Values of telling arguments and what looks like a secret are left out; bounded in size."""
    shown: list[str] = []
    is_value = False
    for argument in command[:_MOST_ARGUMENTS]:
        name, equals, _ = argument.partition("=")
        is_telling = _is_telling(name)
        if is_value:
            shown.append(HIDDEN)
        elif is_telling and equals:
            shown.append(f"{_readable(name[:_LONGEST_ARGUMENT])}={HIDDEN}")
        else:
            shown.append(_readable(_scrubbed(argument)[:_LONGEST_ARGUMENT]))
        is_value = is_telling and not equals and argument.startswith("-") and not is_value
    if len(command) > _MOST_ARGUMENTS:
        shown.append("...")
    return shown


def _readable(argument: str) -> str:
    """Arguments may be any bytes, which Python holds as lone surrogates; no format takes those."""
    return argument.encode(errors="replace").decode()


def _is_telling(name: str) -> bool:
    """Whether `name` is one word and says that a secret follows it."""
    known = name.lower().replace("tokeniz", "")
    if any(letter in known for letter in " \n{?:/"):
        return False
    last = known.replace("_", "-").replace(".", "-").rpartition("-")[2]
    is_option = known.startswith("-")
    return any(word in known for word in _WORDS) or (is_option and last in _NAMES)


def _scrubbed(argument: str) -> str:
    known = argument.lower()
    if not any(sign in known for sign in (*_WORDS, *_SIGNS)):
        return argument
    import re

    # A secret at the edge of what is shown must not be cut before it is found.
    text = argument[: 16 * _LONGEST_ARGUMENT]
    for pattern in _IN_A_TEXT:
        text = re.sub(pattern, rf"\g<1>{HIDDEN}", text)
    return text
