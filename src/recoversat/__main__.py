"""`python -m recoversat` is the `recoversat` command."""

from recoversat.cli import main

main()
