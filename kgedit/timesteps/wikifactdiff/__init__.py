"""The WikiFactDiff profile: what became true, what ceased to be and what stayed, in six scenarios, with neighbours.

Source: Ammar Khodja et al., "WikiFactDiff: A Large, Realistic, and Temporally Adaptable Dataset for Atomic Factual
Knowledge Update in Causal Language Models", LREC-COLING 2024. docs/wikifactdiff.md says where this differs.
"""
