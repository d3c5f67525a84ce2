"""The sample world: three small hand-written Wikidata snapshots, shipped with kgedit.

``world.yaml`` and ``labels.yaml`` are the only sources of data; ``README.md`` explains them.
"""
