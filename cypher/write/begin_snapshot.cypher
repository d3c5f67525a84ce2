// Opens the load of a snapshot, or finds one that was interrupted.
// Parameters: $date day number, $source name and $sha256 of the dump.
// Returns: step at which to go on, and its rows that are in already.
MERGE (s:Snapshot {date: $date})
ON CREATE SET s.state = 'loading', s.step = 'terms', s.written = 0, s.source = $source, s.sha256 = $sha256
RETURN s.step AS step, s.written AS written
