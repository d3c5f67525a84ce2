"""The sample world: three small hand-written Wikidata snapshots, shipped with kgedit.

``world.yaml`` is the only source of data; ``README.md`` explains it.
"""
