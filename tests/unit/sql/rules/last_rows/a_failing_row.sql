SELECT TRY(picky(b)) FROM t
