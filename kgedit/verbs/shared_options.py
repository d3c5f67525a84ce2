"""Options that several verbs share."""

from __future__ import annotations

from typing import Any

from kgedit.verbs.options import flag, options, python_only

TIMESTEP_FORMS = "a name in the home's timesteps folder, two dates (2021-01-04..2023-02-27), or a folder"
"""Accepted forms of a timestep, for help texts."""

TRACKERS = ("trackio", "wandb")
"""Services that a run can log its metrics to."""


@options
class DeviceOptions:
    """Where a local model runs."""

    device: str = flag(
        default="auto", group="Machine", metavar="NAME", help="auto, cpu, cuda, cuda:N, cuda:all or mps."
    )
    dtype: str = flag(
        default="auto", group="Machine", rare=True, metavar="NAME", help="auto, float32, bfloat16 or float16."
    )


@options
class InHome:
    """The home of a function that is no method of one."""

    home: Any = python_only(
        default=None, help="The home, as an object or its folder; None means `$KGEDIT_HOME`, else `./kgedit-data`."
    )
