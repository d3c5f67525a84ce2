"""Settings with which each method takes a moment on a small model: the row that the tests of all methods need."""

from __future__ import annotations

from typing import Any

SEARCH = {"steps": 3, "prompts": 3, "prefix_tokens": 3, "tokens": 400, "length": 32}
CURVATURE = {"tokens": 400, "length": 32, "share": 0.5, "learning_rate": 1e-3, "least_steps": 0}
EPOCHS = {"steps": 3, "batch": 1, "least_steps": 0}

QUICK: dict[str, dict[str, Any]] = {
    "lora": {"epochs": 3},
    "lora_merge": {"epochs": 3},
    "ft": {"steps": 4},
    "ft_l": {"steps": 4},
    "ft_m": {"steps": 4},
    "locft_bf": EPOCHS,
    "galore": EPOCHS,
    "bitfit": EPOCHS,
    "ln_tuning": EPOCHS,
    "ewc": EPOCHS,
    "si": EPOCHS,
    # Where a share of nearly 1 is closed, Adam makes whole steps of the rounding that is left of a gradient.
    "crispedit": {**CURVATURE, "steps": 3, "batch": 1, "layers": "0-1", "chunk": 1},
    "grace": {"steps": 4},
    "memoir": {"steps": 4, "prefixes": 2},
    "wise": {"steps": 4},
    "mend": {"train_steps": 2, "rank": 4, "blocks": 2},
    "stableedit": {"warm_up": 5, "batch": 3},
    "ike": {"embedder": "character-ngrams", "k": 2},
    "graph_rag": {"embedder": "character-ngrams"},
    "rag": {"embedder": "character-ngrams"},
    "rome": SEARCH,
    "r_rome": SEARCH,
    "c_rome": SEARCH,
    "memit": {**SEARCH, "layers": "0-1", "search_batch": 1},
    "encore": {**SEARCH, "layers": "0-1", "search_batch": 1},
    "rlsedit": {**SEARCH, "layers": "0-1", "search_batch": 1},
    "lyaplock": {**SEARCH, "layers": "0-1", "search_batch": 1},
    "anyedit": {**SEARCH, "layers": "0-1", "search_batch": 1, "prompts": 2, "chunk": 2},
    "unke": {"steps": 3, "train_steps": 3, "unrelated": 2},
    "alphaedit": {**SEARCH, "layers": "0-1", "search_batch": 1},
}
"""Settings by method; a method without a row is quick by default."""
