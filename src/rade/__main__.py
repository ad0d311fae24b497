"""`python -m rade` is the `rade` command."""

from rade.cli import main

main()
