"""URLs: what Go's net/url reads, which Kubernetes uses, and their parts."""

from __future__ import annotations

import pytest

from grammar.values.errors import EvaluationError
from grammar.values.url import parse
from tests.grammar.expressions import value


@pytest.mark.parametrize(
    ("text", "scheme", "host", "path"),
    [
        ("https://user:pass@example.com:80/path?q=v#f", "https", "example.com:80", "/path"),
        ("/absolute", "", "", "/absolute"),
        ("HTTP://é.com/é", "http", "é.com", "/%C3%A9"),
        ("//host/path", "", "host", "/path"),
        ("http://a/%2f[x]", "http", "a", "/%2f[x]"),
        ("http://a/b{c}", "http", "a", "/b%7Bc%7D"),
        ("mailto:a@b", "mailto", "", ""),
        ("http:", "http", "", ""),
        ("*", "", "", "*"),
        ("http://[fe80::1%25en0]/", "http", "[fe80::1%en0]", "/"),
        ("pg://a:1,b:2/", "pg", "a:1,b:2", "/"),
    ],
)
def test_parts(text: str, scheme: str, host: str, path: str) -> None:
    found = parse(text)
    assert (found.scheme, found.host, found.path) == (scheme, host, path)


@pytest.mark.parametrize(
    ("text", "hostname", "port"),
    [
        ("https://[::1]:80/", "::1", "80"),
        ("https://example.com:8080/", "example.com", "8080"),
        ("https://example.com/", "example.com", ""),
        ("http://a:/", "a", ""),
        ("/path", "", ""),
    ],
)
def test_host_without_its_port(text: str, hostname: str, port: str) -> None:
    found = parse(text)
    assert (found.hostname, found.port) == (hostname, port)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "../relative",
            "a b",
            ":a",
            "1a:b",
            "https://a:b:c/",
            "http://a b/",
            "http://[1.2.3.4]/",
        ),
        *("http://a%41b/", "http://a:1,b:2/", "/%zz", "/%", "http://[::1", "http://a[b]/", "/\x7f"),
        *("http://us er@h/", "/a#%zz", "http://[::1]x/", "http://%zz@h/", "http://a:x/"),
    ],
)
def test_what_is_no_url(text: str) -> None:
    with pytest.raises(EvaluationError):
        parse(text)


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("k=a&k=b&j=c", {"k": ("a", "b"), "j": ("c",)}),
        ("a+b=%C3%A9", {"a b": ("é",)}),
        ("a=1;b=2&c=%zz&d&=e", {"d": ("",), "": ("e",)}),
        ("", {}),
    ],
)
def test_query(query: str, values: object) -> None:
    assert value(f'url("/?{query}").getQuery()') == values


def test_a_query_has_a_limit() -> None:
    with pytest.raises(EvaluationError, match="more than 10,000 parameters"):
        value('url("/?" + lists.range(10001).map(i, "a").join("&")).getQuery()')


def test_equal_urls() -> None:
    assert value('url("HTTP://a/b") == url("http://a/b")') is True
    assert value('url("http://a/b") == url("http://a/c")') is False
