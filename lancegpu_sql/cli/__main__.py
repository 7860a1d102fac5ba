"""`python -m lancegpu_sql.cli`: the same as `lancegpu`."""

from __future__ import annotations

import sys

from lancegpu_sql.cli.entry import main

sys.exit(main())
