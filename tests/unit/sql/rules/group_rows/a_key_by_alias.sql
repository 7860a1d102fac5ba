SELECT f(a) AS k, count(*) FROM t GROUP BY k ORDER BY k
