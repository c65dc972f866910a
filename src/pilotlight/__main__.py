"""python -m pilotlight"""

from pilotlight.cli.main import entry

entry()
