SELECT id FROM t QUALIFY p(id) AND row_number() OVER (PARTITION BY a ORDER BY id) = 1
