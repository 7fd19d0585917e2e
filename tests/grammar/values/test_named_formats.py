"""Named formats: which texts have them."""

from __future__ import annotations

import pytest

from tests.grammar.expressions import value

RIGHT = {
    "dns1123Label": ("a", "a-b", "1a", "a" * 63),
    "dns1123Subdomain": ("a.b-c.1", "a" * 253),
    "dns1035Label": ("a1",),
    "qualifiedName": ("A_b.c", "example.com/Tier"),
    "dns1123LabelPrefix": ("web-", "a"),
    "dns1123SubdomainPrefix": ("a.web-",),
    "dns1035LabelPrefix": ("web-",),
    "labelValue": ("", "A.b_c-1"),
    "uri": ("/a", "https://example.com"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"),
    "byte": ("aGVsbG8=", "YQ=="),
    "date": ("2024-02-29", "0000-02-29"),
    "datetime": ("2026-01-31T12:00:00Z", "2026-01-31t12:00:00.5+01:00"),
}
WRONG = {
    "dns1123Label": ("", "a.b", "A", "-a", "a-", "a" * 64, "a\n", "é"),
    "dns1123Subdomain": ("", "a..b", ".a", "a" * 254),
    "dns1035Label": ("1a", "a.b"),
    "qualifiedName": ("", "/a", "a/", "a/b/c", "-a", "A.com/b"),
    "dns1123LabelPrefix": ("-", "a.", ""),
    "dns1123SubdomainPrefix": ("-a",),
    "dns1035LabelPrefix": ("1--",),
    "labelValue": ("-", "a b", "a" * 64),
    "uri": ("a", ""),
    "uuid": ("123e4567", ""),
    "byte": ("", "a", "aGVsbG8", "a-b_"),
    "date": ("2026-02-30", "2026-1-1", "2026-01-01 "),
    "datetime": ("2026-01-31", "2026-01-31T24:00:00Z", "2026-01-31T12:00:00", "x"),
}


def reasons(name: str, text: str) -> object:
    return value(f"format.{name}().validate(text)", {"text": text})


@pytest.mark.parametrize("name", RIGHT)
def test_texts(name: str) -> None:
    assert {t: value("r.hasValue()", {"r": reasons(name, t)}) for t in RIGHT[name]} == (
        dict.fromkeys(RIGHT[name], False)
    )
    assert {t: value("r.hasValue()", {"r": reasons(name, t)}) for t in WRONG[name]} == (
        dict.fromkeys(WRONG[name], True)
    )


def test_formats_by_name() -> None:
    assert value('format.named("uuid").value() == format.uuid()') is True
    assert value('format.named("uuid").value() == format.date()') is False
    assert value('format.named("email").hasValue()') is False
    assert str(value("type(format.uuid())")) == "kubernetes.NamedFormat"
