"""How often the filter "the relation is not expressed" rejects questions about another relation.

    python benchmarks/final_filters.py

Every template's question is tested as if it were about each other relation. Prints the number of pairs and the share
rejected.
"""

from __future__ import annotations

from itertools import permutations

from kgedit.timesteps.relation_words import RelationWords, question_stems
from kgedit.wording.templates import ANY_CLASS, template_table


def main() -> None:
    """Print the number of pairs and the share rejected."""
    rows = [row for row in template_table().to_pylist() if row["subject_class"] == ANY_CLASS]
    asked = {row["property"]: question_stems(row["question"]) for row in rows}
    words = RelationWords(template_table())
    expressed = {name: words(name) for name in asked}
    refused = sum(not asked[one] & expressed[other] for one, other in permutations(asked, 2))
    pairs = len(rows) * (len(rows) - 1)
    print(f"{len(rows)} relations, {pairs:,} pairs, {refused / pairs:.1%} refused")


if __name__ == "__main__":
    main()
