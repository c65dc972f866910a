"""pilotlight completion: verbs, options and their values at the press of a key."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

# $1: the verb and the word before, or the verb and the kind of word that is begun.
_SCRIPT = """\
[ -z "$ZSH_VERSION" ] || {{ autoload -U +X compinit bashcompinit && compinit && bashcompinit; }}
_pilotlight_words() {{
  case "$1" in
{cases}
  esac
}}
_pilotlight() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} verb=${{COMP_WORDS[1]}} kind=word words
  [ "$COMP_CWORD" -gt 1 ] || verb=
  [[ $word != -* ]] || kind=option
  words=$(_pilotlight_words "$verb ${{COMP_WORDS[COMP_CWORD-1]}}")
  COMPREPLY=($(compgen -W "${{words:-$(_pilotlight_words "$verb $kind")}}" -- "$word"))
}}
complete -o default -F _pilotlight pilotlight
"""


class Completion:
    name = "completion"
    help = "Print what bash or zsh needs to complete verbs, options and their values."
    examples = (
        'eval "$(pilotlight completion)"',
        "pilotlight completion > /etc/bash_completion.d/pilotlight",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """None."""

    def run(self, args: argparse.Namespace) -> int:
        print(script(), end="")
        return 0


def script() -> str:
    """One for both; where no word of ours fits they offer files."""
    from pilotlight.cli.main import VERBS, command_of, verb_parser

    cases = [_case(" word", VERBS), _case(" option", ("--help", "--version"))]
    for verb in VERBS:
        parser = argparse.ArgumentParser(prog=f"pilotlight {verb}")
        verb_parser(parser, command_of(verb))
        options: list[str] = []
        for action in parser._actions:
            options += action.option_strings
            for asked in action.option_strings or ["word"]:
                cases.append(_case(f"{verb} {asked}", action.choices or ()))
        cases.append(_case(f"{verb} option", options))
    return _SCRIPT.format(cases="\n".join(filter(None, cases)))


def _case(asked: str, words: Iterable[object]) -> str:
    """Nothing where there is nothing to offer."""
    offered = " ".join(map(str, words))
    return f'  "{asked}") echo "{offered}" ;;' if offered else ""
