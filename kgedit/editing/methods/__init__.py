"""One editing method per file; kgedit.editing.METHODS names them."""
