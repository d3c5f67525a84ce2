"""Small frozen dataclasses that pass between packages."""
