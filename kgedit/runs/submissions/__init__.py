"""Runs for a leaderboard: whether a run is whole and says what it was (checks), and its compact entry on a board.

A board is a folder, of a git or a hub repository or any other, with a folder for each run under entries/.
"""
