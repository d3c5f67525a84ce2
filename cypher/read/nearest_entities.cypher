// Finds: Documents most similar to each of many subjects, by the cosine of TF-IDF vectors (WikiFactDiff, section 4.4).
// Features, weights and similarity are those of nearest_triples. A feature shared by several subjects or documents is
// looked up once.
// Parameters:
// $subjects (ids): subjects
// $documents (ids): items of the older snapshot to compare with
// $from (date): older snapshot
// $to (date): newer snapshot; describes subjects that are missing from the older one
// $n (integer, default 500): maximum number of documents for each subject
// Returns:
// subject: QID
// subject_label: its label
// neighbour: QID of a document
// neighbour_label: its label
// cosine: cosine similarity in millionths
UNWIND range(0, size($subjects) - 1) AS i
MATCH (s:Term {id: $subjects[i]})
WITH s ORDER BY i
WITH collect(s) AS subjects
CALL (subjects) {
  UNWIND range(0, size(subjects) - 1) AS i
  WITH i, subjects[i] AS s
  WITH i, s, CASE WHEN size([t IN s.presence WHERE t <= $from]) % 2 = 1 THEN $from ELSE $to END AS day
  CALL (s, day) {
    MATCH (s)-[f:FACT]->(o:Item) WHERE f.since <= day < f.until
    UNWIND [f.property, null] AS property
    RETURN property, o
    UNION ALL
    RETURN null AS property, s AS o
  }
  WITH i, property, o, count(*) AS times
  WITH property, o, collect([i, times]) AS askers
  CALL (property, o) {
    CALL (property, o) {
      MATCH (x:Item)-[g:FACT]->(o) WHERE g.since <= $from < g.until AND (property IS NULL OR g.property = property)
      RETURN x
      UNION ALL
      WITH property, o WHERE property IS NULL
      RETURN o AS x
    }
    WITH x, count(*) AS has WHERE x.id IN $documents
    RETURN collect([x, has]) AS holders
  }
  WITH askers, holders, toInteger(round(10000 * (log((1.0 + size($documents)) / (1 + size(holders))) + 1))) AS weight
  RETURN collect([askers, holders, weight]) AS features
}
CALL (features) {
  UNWIND features AS feature
  UNWIND feature[0] AS asker
  WITH asker[0] AS i, sum((asker[1] * feature[2]) ^ 2) AS length ORDER BY i
  RETURN collect(length) AS lengths
}
CALL (features) {
  UNWIND features AS feature
  UNWIND feature[1] AS holder
  WITH holder[0] AS x, collect([feature[0], feature[2] * feature[2] * holder[1]]) AS shared
  RETURN collect([x, shared]) AS candidates
}
CALL (candidates) {
  UNWIND range(0, size(candidates) - 1) AS j
  WITH j, candidates[j][0] AS x
  CALL (x) {
    MATCH (x)-[f:FACT]->(o:Item) WHERE f.since <= $from < f.until
    UNWIND [f.property, null] AS property
    RETURN property, o
    UNION ALL
    RETURN null AS property, x AS o
  }
  WITH j, property, o, count(*) AS has
  WITH property, o, collect([j, has]) AS havers
  CALL (property, o) {
    CALL (property, o) {
      MATCH (y:Item)-[g:FACT]->(o) WHERE g.since <= $from < g.until AND (property IS NULL OR g.property = property)
      RETURN y
      UNION
      WITH property, o WHERE property IS NULL
      RETURN o AS y
    }
    WITH y WHERE y.id IN $documents
    RETURN count(y) AS holders
  }
  WITH havers, toInteger(round(10000 * (log((1.0 + size($documents)) / (1 + holders)) + 1))) AS weight
  UNWIND havers AS haver
  WITH haver[0] AS j, sum((haver[1] * weight) ^ 2) AS length ORDER BY j
  RETURN collect(length) AS document_lengths
}
UNWIND range(0, size(candidates) - 1) AS j
WITH subjects, lengths, candidates[j][0] AS x, candidates[j][1] AS shared, document_lengths[j] AS length
CALL (shared) {
  UNWIND shared AS one
  UNWIND one[0] AS asker
  RETURN asker[0] AS i, sum(asker[1] * one[1]) AS dot
}
WITH i, subjects[i] AS s, x, toInteger(round(1e6 * dot / sqrt(lengths[i] * length))) AS cosine
WHERE x <> s AND cosine > 0
WITH i, s, collect([x, cosine]) AS found
CALL (found) {
  UNWIND found AS one
  WITH one[0] AS x, one[1] AS cosine
  RETURN x, cosine ORDER BY cosine DESC, toInteger(substring(x.id, 1)) LIMIT $n
}
RETURN s.id AS subject, s.label AS subject_label, x.id AS neighbour, x.label AS neighbour_label, cosine
ORDER BY i, cosine DESC, toInteger(substring(neighbour, 1))
