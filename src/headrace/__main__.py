"""``python -m headrace`` is the command ``headrace``."""

import sys

from headrace.cli.main import main

sys.exit(main())
