"""argv -> command -> exit code."""

from __future__ import annotations

import sys

from webhook import cli


def main() -> None:
    """The console script."""
    sys.exit(cli.main())


if __name__ == "__main__":
    main()
