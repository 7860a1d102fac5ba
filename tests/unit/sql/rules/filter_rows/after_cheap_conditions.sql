SELECT id FROM t WHERE p(id) AND b > 0 AND s LIKE 'x%'
