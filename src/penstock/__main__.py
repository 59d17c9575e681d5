"""``python -m penstock`` is the command ``penstock``."""

import sys

from penstock.cli.main import main

sys.exit(main())
