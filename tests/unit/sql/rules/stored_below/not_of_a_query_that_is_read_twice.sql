WITH x AS (SELECT id, b FROM docs) SELECT one.id, nul(one.b) FROM x AS one JOIN x AS two USING (id)
