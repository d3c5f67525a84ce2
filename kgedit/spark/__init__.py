"""The stages of the store as Spark tasks, for clusters with shuffles, retries and object storage."""
