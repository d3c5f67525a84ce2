"""Names of the files of a snapshot's buckets."""

from __future__ import annotations


def bucket_file(table: str, number: int, buckets: int) -> str:
    """Name of a bucket's file of claims, facts or entities; a snapshot with one bucket has plain names.

    >>> bucket_file("facts", 0, 1), bucket_file("facts", 3, 64)
    ('facts.parquet', 'facts-00003.parquet')
    """
    return f"{table}.parquet" if buckets == 1 else f"{table}-{number:05d}.parquet"


def bucket_pattern(table: str) -> str:
    """Pattern of the names of a table's files in a snapshot with several buckets, for DuckDB.

    >>> bucket_pattern("facts")
    'facts-*.parquet'
    """
    return f"{table}-*.parquet"
