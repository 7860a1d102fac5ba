SELECT t.id FROM t, u WHERE CASE WHEN t.b <> 0 THEN picky(t.b) END = u.id
