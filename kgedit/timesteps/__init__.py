"""Timesteps: changed facts become cases with probes, in the profiles WikiBigEdit and WikiFactDiff."""
