// Finds: Items that a question names by label or alias. Case and accents are ignored; only whole words match; names
// inside longer names are found as well.
// Parameters:
// $question (text): the question
// $words (integer, default 8): maximum length of a name in words
// Returns:
// name: matched words of the question, without case and accents
// start: index of its first word in the question, from 0
// id: QID of an item with this name that is the subject of a fact
// label: its label
// description: its description
WITH [word IN split(reduce(key = '', c IN split(normalize(toLower($question), NFKD), '') | CASE
       WHEN c =~ '\\p{M}' THEN key WHEN c =~ '[\\p{L}\\p{N}_]' THEN key + c ELSE key + ' ' END), ' ') WHERE word <> ''] AS words
UNWIND range(0, size(words) - 1) AS start
UNWIND range(1, CASE WHEN size(words) - start < $words THEN size(words) - start ELSE $words END) AS length
WITH start, reduce(run = '', word IN words[start..start + length] | run + CASE run WHEN '' THEN '' ELSE ' ' END + word) AS name
CALL (name) {
  CALL db.index.fulltext.queryNodes('term_names', '"' + name + '"', {limit: 1000}) YIELD node
  WITH node, [text IN [node.label] + coalesce(node.aliases, []) WHERE text IS NOT NULL |
    reduce(key = ' ', c IN split(normalize(toLower(text), NFKD), '') | CASE
      WHEN c =~ '\\p{M}' THEN key WHEN c =~ '[\\p{L}\\p{N}_]' THEN key + c
      WHEN key ENDS WITH ' ' THEN key ELSE key + ' ' END)] AS names
  WHERE node:Item AND any(text IN names WHERE trim(text) = name) AND EXISTS { (node)-[:FACT]->() }
  RETURN node
}
RETURN DISTINCT name, start, node.id AS id, node.label AS label, node.description AS description
ORDER BY start, name, id
