"""`python -m tests.bench [NAME ...]`, from the root of the repository."""

import sys

from .run import main

sys.exit(main(sys.argv[1:]))
