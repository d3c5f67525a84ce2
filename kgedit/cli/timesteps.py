"""How options and arguments take a timestep; `kgedit.timesteps.timestep_names` finds the one that is meant."""

from __future__ import annotations

TIMESTEP = "TIMESTEP"
"""Metavar of an option that takes a timestep."""

TIMESTEP_FORMS = "a name in the home's benchmark folder, two dates (2021-01-04..2023-02-27), or a folder"
"""What can be given, for help texts."""
