SELECT * FROM docs, LATERAL (SELECT nul(b) AS v) l WHERE f(a) > 1 ORDER BY id
