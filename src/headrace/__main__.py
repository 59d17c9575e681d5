"""The command ``headrace``, also as ``python -m headrace``; what it does is loaded when it runs."""

import sys

__all__ = ["main"]


def main() -> int:
    """Load the command and run it; gives its exit code."""
    try:
        from headrace.cli.main import main as run
    except KeyboardInterrupt:  # nothing has begun
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
