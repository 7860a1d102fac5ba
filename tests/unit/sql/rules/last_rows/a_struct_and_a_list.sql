SELECT rec(id).lo, li(id)[1] FROM t
