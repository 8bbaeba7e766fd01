"""What holds for all tests: properties are tried on the same examples each time, so that a run can be repeated.

`RECOVERSAT_EXPLORE=1 pytest ...` looks for new ones.
"""

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("explore" if os.environ.get("RECOVERSAT_EXPLORE") else "same")
