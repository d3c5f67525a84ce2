"""Parquet files that cannot be decoded, in homes whose files have no checksums: one message for all commands."""

from __future__ import annotations

import sys

_SIGNS = ("parquet", "thrift", "snappy", "zstd", "magic bytes", "corrupt", "decompress", "page header", "footer")


def is_undecodable(error: Exception) -> bool:
    """Whether Arrow or DuckDB could not decode a file; both raise many types of errors for that."""
    libraries = (("pyarrow", "ArrowException"), ("duckdb", "Error"))
    types = tuple(getattr(sys.modules[name], base) for name, base in libraries if name in sys.modules)
    arrow_says_os_error = type(error) is OSError and error.errno is None
    return (isinstance(error, types) or arrow_says_os_error) and any(sign in str(error).lower() for sign in _SIGNS)


def about_undecodable(error: Exception) -> str:
    """Message with the cause, and how to find the file."""
    return (
        f"A file cannot be decoded, so it is probably damaged: {str(error).partition(chr(10))[0]}\n"
        "Find the damaged files of the home, and what to do: kgedit verify"
    )
