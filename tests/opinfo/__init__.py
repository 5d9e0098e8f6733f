"""OpInfo's operators against eager mode; `python -m tests.opinfo --help`."""

from __future__ import annotations

from typing import Any


def ops_by_name() -> dict[str, Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    from tests.opinfo.rows import name_of

    # What an empty tensor holds is nobody's business.
    return {name_of(op): op for op in op_db if "empty" not in op.name}
