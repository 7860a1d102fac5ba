WITH x AS (SELECT id, b FROM docs), y AS (SELECT * FROM x WHERE id < 9) SELECT id, nul(b) FROM y
