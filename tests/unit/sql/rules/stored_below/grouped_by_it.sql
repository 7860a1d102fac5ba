SELECT nul(d.b), count(*) FROM (SELECT b FROM docs) AS d GROUP BY nul(b) ORDER BY nul(b)
