"""The page about keys: it has those of the source, and what is said about a wrong one."""

import json
import re
from pathlib import Path

import pytest

from cli.main import main
from policies.manifest_text import GROUP
from server.capabilities.table import CAPABILITIES
from tests.support.builders import kubectl_list, node, pod

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "keys.md").read_text(encoding="utf-8")
SOURCE = ("cli", "engine", "grammar", "policies", "server")
# Those of no capability: opting in, the gate, exempt pods, requeues and the Lease.
CORE = {
    *("placet.dev/scheduling", "placet.dev/gate", "placet.dev/bypass"),
    *(f"{GROUP}/{name}" for name in ("Evaluate", "wanted-by", "released")),
}
_KEY = re.compile(rf"(?:placet\.dev|{re.escape(GROUP)})/(?!v[0-9])[A-Za-z][A-Za-z-]*")


def keys_of_source() -> set[str]:
    files = (file for name in SOURCE for file in (ROOT / name).rglob("*"))
    texts = (f.read_text(encoding="utf-8") for f in files if f.suffix in (".py", ".policy"))
    return {key for text in texts for key in _KEY.findall(text)}


def test_the_page_has_every_key_of_the_source() -> None:
    rows = re.findall(r"(?m)^\| `([^`]+)` \| an? ", PAGE)
    assert sorted(rows) == sorted(keys_of_source())


def test_the_page_has_a_row_for_each_key_of_a_capability() -> None:
    """And the first table has no other keys than these and those of the core."""
    rows = dict(re.findall(r"(?m)^\| `([^`]+)` \| ([^|]+) \| [^|]+ \| [^|]+ \|$", PAGE))
    missing = [
        f"docs/keys.md needs the row `| `{key}` | {what} | … | … |` of {capability.name}"
        for capability in CAPABILITIES
        for key, what in capability.keys.items()
        if rows.get(key) != what
    ]
    assert not missing, "\n".join(missing)
    known = {key for capability in CAPABILITIES for key in capability.keys}
    assert rows.keys() - known == CORE


def test_a_wrong_family_is_named_as_the_page_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shown,) = re.findall(r"(?m)^note: .*$", PAGE)
    (wrong,) = re.findall(r"annotation `([^`]+)`", shown)
    asked = pod("web", "shop")
    asked["metadata"]["annotations"] = {wrong: "INC-1234"}
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(kubectl_list([node("n1"), asked])), encoding="utf-8")
    policies = ROOT / "policies" / "library" / "headroom.policy"
    main(["explain", "shop/web", "--cluster", str(file), "--policies", str(policies)])
    assert shown in capsys.readouterr().err.splitlines()
