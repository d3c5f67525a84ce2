"""Leaderboard submissions: checks that a run is complete and documented, and its compact entry on a board.

A board is a folder, for example of a git or hub repository, with a folder for each run under entries/.
"""
