"""The live view of what changed: `kgedit explore`.

`indexes` keeps small derived files beside the store, and `searching`, `differences` and `history` query them. `exports`
makes timesteps of selected changes, and `server` serves the page.
"""
