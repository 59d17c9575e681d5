"""``python -m headrace`` is the command ``headrace``."""

import sys

try:
    from headrace.cli.main import main
except KeyboardInterrupt:  # nothing has begun
    sys.exit(130)

sys.exit(main())
