CREATE FULLTEXT INDEX term_names IF NOT EXISTS FOR (t:Item|Property) ON EACH [t.label, t.aliases]
OPTIONS { indexConfig: { `fulltext.analyzer`: 'standard-folding', `fulltext.eventually_consistent`: false } }
