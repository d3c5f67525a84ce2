"""QAEdit: question-answering datasets as edits, with subject, rephrasing, locality and topic (Mirage, appendix A.2)."""
