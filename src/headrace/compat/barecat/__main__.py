"""``python -m barecat``."""

from headrace.compat.barecat.cli.main import main

if __name__ == "__main__":
    main()
