SELECT t.id FROM t LEFT JOIN u ON true WHERE f(u.id) = t.id
