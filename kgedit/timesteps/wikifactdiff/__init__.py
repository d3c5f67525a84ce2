"""The WikiFactDiff profile: facts that became true, ended or stayed, in six scenarios, with neighbours.

Source: Ammar Khodja et al., "WikiFactDiff: A Large, Realistic, and Temporally Adaptable Dataset for Atomic Factual
Knowledge Update in Causal Language Models", LREC-COLING 2024. Differences: docs/wikifactdiff.md.
"""
