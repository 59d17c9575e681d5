"""``python -m barecat``."""

from penstock.compat.barecat.cli.main import main

if __name__ == "__main__":
    main()
