"""``python -m barecat``."""

import sys

from penstock.compat.barecat.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
