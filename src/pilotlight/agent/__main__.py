"""The agent that `pilotlight run` starts: nobody sees it, and it ends itself."""

from __future__ import annotations

import os
import sys

from pilotlight.agent.serve import serve
from pilotlight.agent.settings import Settings
from pilotlight.errors import PilotlightError
from pilotlight.runtime import runtime
from pilotlight.ship.target import target_of


def main() -> int:
    # Whatever the starter had open and its working folder are not ours to hold.
    os.closerange(3, 4096)
    os.chdir("/")
    try:
        place = runtime()
        target = target_of({}, os.environ, place.folder)
        serve(Settings(ends_itself=True, collector=target), place, lambda: None)
    except PilotlightError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


sys.exit(main())
