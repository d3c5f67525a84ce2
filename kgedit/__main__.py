"""``python -m kgedit``."""

from kgedit.cli import main

main(prog_name="kgedit")
