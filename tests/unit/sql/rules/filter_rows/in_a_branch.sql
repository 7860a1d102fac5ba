SELECT id FROM t WHERE CASE WHEN b <> 0 THEN picky(10 // b) > 1 ELSE false END
