"""The page about keys: it has those of the source, and what is said about a wrong one."""

import json
import re
from pathlib import Path

import pytest

from cli.main import main
from engine.objects.request_pod import EARLIER_BYPASS
from policies.manifest_text import GROUP
from tests.support.builders import kubectl_list, node, pod

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "keys.md").read_text(encoding="utf-8")
SOURCE = ("cli", "engine", "grammar", "policies", "server")
_KEY = re.compile(rf"(?:placet\.dev|{re.escape(GROUP)})/(?!v[0-9])[A-Za-z][A-Za-z-]*")


def keys_of_source() -> set[str]:
    """Those that are written out, and the one that is made of the group of the policies."""
    files = (file for name in SOURCE for file in (ROOT / name).rglob("*"))
    texts = (f.read_text(encoding="utf-8") for f in files if f.suffix in (".py", ".policy"))
    return {EARLIER_BYPASS, *(key for text in texts for key in _KEY.findall(text))}


def test_the_page_has_every_key_of_the_source() -> None:
    rows = re.findall(r"(?m)^\| `([^`]+)` \| an? ", PAGE)
    assert sorted(rows) == sorted(keys_of_source())


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
