// Marks a snapshot as wholly in the graph.
// Parameters: $date day number.
MATCH (s:Snapshot {date: $date}) SET s.state = 'complete' REMOVE s.step, s.written
