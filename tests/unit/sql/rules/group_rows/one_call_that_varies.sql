SELECT nd(a) AS k, count(*) FROM t GROUP BY nd(a) HAVING nd(a) > 1 ORDER BY nd(a)
