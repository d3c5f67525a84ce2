"""The live view of what changed: `kgedit explore`.

`indexes` keeps small derived files beside the store, `searching`, `differences` and `history` ask them and the store,
`exports` makes timesteps of what was selected, and `server` is what a browser speaks to.
"""
