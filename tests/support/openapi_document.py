"""The document docs/openapi.yaml, written to the standard output: `make openapi`."""

import sys
from typing import Any

import yaml

from server.view.routes import description


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - of yaml
        return True


if __name__ == "__main__":
    yaml.dump(description(), sys.stdout, _Dumper, sort_keys=False, width=100, allow_unicode=True)
