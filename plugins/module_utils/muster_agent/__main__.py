"""The agent's command line; ``python .../muster_agent COMMAND`` works from wherever the package was shipped to."""

import os
import sys

if __name__ == "__main__":
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    from muster_agent import cli

    sys.exit(cli.main(sys.argv[1:]))
