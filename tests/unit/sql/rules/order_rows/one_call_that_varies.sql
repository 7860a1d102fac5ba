SELECT nd(a), id FROM t ORDER BY nd(a)
