SELECT nul(docs.b), count(*) FROM docs WHERE id > 2 GROUP BY nul(b) HAVING nul(b) > 2
