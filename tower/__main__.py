"""`python -m tower`: the same as the `tower` program."""

import sys

from tower.cli import main

if __name__ == "__main__":
    sys.exit(main())
