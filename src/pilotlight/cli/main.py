"""The command line: finds the verb, runs it, turns errors into one line and an exit code."""

from __future__ import annotations

import argparse
import errno
import importlib
import sys
from collections.abc import Sequence

from pilotlight import __version__
from pilotlight.cli.command import Command
from pilotlight.cli.terminal import leave_unsaid, printable_streams
from pilotlight.errors import PilotlightError, UsageError

# Verb: class in the module of the same name. Only the module of the verb asked for is imported.
VERBS = {
    "run": "Run",
    "top": "Top",
    "watch": "Watch",
    "report": "Report",
    "export": "Export",
    "dump": "Dump",
    "capture": "Capture",
    "overhead": "Overhead",
    "doctor": "Doctor",
    "agent": "Agent",
    "analyze": "Analyze",
    "diff": "Diff",
    "whatif": "Whatif",
    "roofline": "Roofline",
    "hang": "Hang",
    "convert": "Convert",
    "simulate": "Simulate",
    "serve": "Serve",
    "jobs": "Jobs",
    "job": "Job",
    "ranks": "Ranks",
    "steps": "Steps",
    "kernels": "Kernels",
    "query": "Query",
    "token": "Token",
    "store": "Store",
    "completion": "Completion",
}

_FULL = (errno.ENOSPC, errno.EDQUOT)
_DESCRIPTION = "The profiler that stays on: records any Python job, says where the time goes."


def entry() -> None:
    """The `pilotlight` program."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    with printable_streams():
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    verb = arguments[0] if arguments else ""
    parser = _parser([verb] if verb in VERBS else list(VERBS))
    args, unknown = parser.parse_known_args(_late_first(parser, list(arguments)) or ["--help"])
    command: Command = args.command
    try:
        if unknown:
            told = " ".join(unknown)
            see = f"`pilotlight {command.name} --help`"
            raise UsageError(f"unrecognized arguments: {told}; {see} has those that there are")
        code = command.run(args)
        sys.stdout.flush()
        return code
    except PilotlightError as error:
        print(f"pilotlight {command.name}: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output went away (a pager, head): not an error of ours.
        leave_unsaid(sys.stdout)
        return 0
    except OSError as error:
        if error.errno not in _FULL:
            raise
        leave_unsaid(sys.stdout)
        print(f"pilotlight {command.name}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _late_first(parser: argparse.ArgumentParser, arguments: list[str]) -> list[str]:
    """Before Python 3.12 argparse does not know words that come after an option and may be absent
    (`token revoke --store X ID`): such are put before the options."""
    if len(arguments) < 4 or "--" in arguments or {"-h", "--help", "--version"} & set(arguments):
        return arguments
    _, late = parser.parse_known_args(arguments)
    if any(word.startswith("-") for word in late):
        return arguments
    for word in late:
        del arguments[len(arguments) - 1 - arguments[::-1].index(word)]
    return [*arguments[:2], *late, *arguments[2:]]


def command_of(verb: str) -> Command:
    """The command behind a verb."""
    module = importlib.import_module(f"pilotlight.cli.{verb}")
    command: Command = getattr(module, VERBS[verb])()
    return command


def verb_parser(parser: argparse.ArgumentParser, command: Command) -> None:
    """Fills in the parser of one verb."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = command.help
    parser.epilog = "examples:\n" + "\n".join(f"  {example}" for example in command.examples)
    parser.set_defaults(command=command)
    command.arguments(parser)


def _parser(verbs: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pilotlight",
        description=_DESCRIPTION,
        epilog="Start with:  pilotlight run -- python train.py\nThen:        pilotlight report",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pilotlight {__version__}")
    verb_parsers = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in verbs:
        command = command_of(verb)
        verb_parser(verb_parsers.add_parser(verb, help=command.help), command)
    return parser
