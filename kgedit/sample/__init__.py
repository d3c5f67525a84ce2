"""The sample world: three small Wikidata snapshots written by hand, shipped with kgedit.

``world.yaml`` is the source and ``README.md`` its guide; everything else is read from the one and told in the other.
"""
