"""Tables, comparisons and rankings of finished runs."""
