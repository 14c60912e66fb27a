"""``python -m amends.bench``: the whole measurement with its table, for a checkout without the command line."""

import sys

from amends.bench.main import run_command

sys.exit(run_command(json="--json" in sys.argv, quick="--quick" in sys.argv, directory=None))
