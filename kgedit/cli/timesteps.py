"""Timesteps as options and arguments; `kgedit.timesteps.timestep` resolves them."""

from __future__ import annotations

TIMESTEP = "TIMESTEP"
"""Metavar of an option for a timestep."""

TIMESTEP_FORMS = "a name in the home's benchmark folder, two dates (2021-01-04..2023-02-27), or a folder"
"""Accepted forms, for help texts."""
