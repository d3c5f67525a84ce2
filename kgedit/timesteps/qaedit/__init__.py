"""QAEdit: question-answering sets as edits, with subject, rephrasing, locality and topic (Mirage, appendix A.2)."""
