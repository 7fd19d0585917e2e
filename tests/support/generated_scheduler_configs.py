"""Generated configurations of kube-scheduler: each is sound, or a little changed from a sound one.

What changes is what doctor judges: entries of extenders, and the fields of the configuration.
`Generator.configuration` gives the text of a file. What kube-scheduler makes of it is not known
here: kube-scheduler itself is asked.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import trustme
import yaml

from tests.support.scheduler_configs import OTHER, OURS, configuration

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Certificates:
    """Authorities, certificates and keys in base64; the last of the keys is another one's."""

    ca: str
    certificate: str
    key: str
    other_key: str

    @classmethod
    def new(cls) -> Certificates:
        authority = trustme.CA()
        first, second = (authority.issue_cert(name) for name in ("a", "b"))
        pems = (authority.cert_pem, first.cert_chain_pems[0], first.private_key_pem)
        return cls(*(_base64(pem.bytes()) for pem in (*pems, second.private_key_pem)))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Generator:
    """Configurations from one seed."""

    def __init__(self, seed: int, certificates: Certificates) -> None:
        self._random = Random(seed)
        self._certificates = certificates
        self._changes: tuple[Callable[[Json], None], ...] = (
            *(self._extender, self._extender, self._extender, self._number, self._tls),
            *(self._misspelled, self._null, self._wrong_type, self._version),
        )

    def configuration(self) -> str:
        """The text of a file with up to three changes."""
        made = self._sound()
        for _ in range(self._random.choice((0, 1, 1, 1, 2, 2, 3))):
            self._one_of(self._changes)(made)
        return self._text(made)

    def _one_of(self, values: Any) -> Any:
        return self._random.choice(values)

    def _often(self, likely: float = 0.5) -> bool:
        return self._random.random() < likely

    def _sound(self) -> Json:
        made = configuration(*self._one_of(([OURS], [OTHER, OURS], [dict(OURS)])))
        names = self._random.sample(
            ["default-scheduler", "batch", "gpu"], self._one_of((0, 1, 1, 2))
        )
        if names:
            made["profiles"] = [{"schedulerName": name} for name in names]
            made["leaderElection"] = {"resourceName": "mine"}
        if self._often():
            made["parallelism"] = self._random.randint(1, 32)
        return json.loads(json.dumps(made))  # type: ignore[no-any-return]

    def _profiles(self, made: Json) -> list[Json]:
        profiles = made.get("profiles")
        if not isinstance(profiles, list) or not profiles:
            profiles = made["profiles"] = [{}]
        return [each for each in profiles if isinstance(each, dict)]

    def _profile(self, made: Json) -> Json:
        found = self._one_of(self._profiles(made) or [{}])
        assert isinstance(found, dict)
        return found

    def _some(self, **choices: Any) -> Json:
        return {name: self._one_of(values) for name, values in choices.items() if self._often(0.7)}

    # ---- changes

    def _extender(self, made: Json) -> None:
        entry = self._entry(made)
        resources = [
            {"name": self._one_of(("a.b/c", "a.b/d", "cpu", "x.kubernetes.io/c", "a/b/c"))}
            for _ in range(self._one_of((1, 1, 2)))
        ]
        if self._often(0.3):
            resources[0]["ignoredByScheduler"] = True
        changes: Json = {
            "weight": self._one_of((1, 0, -1, 2**63 - 1, 2**63, "1", 2.5, None)),
            "prioritizeVerb": self._one_of(("prioritize", "")),
            "bindVerb": self._one_of(("bind", "")),
            "urlPrefix": self._one_of(("", "127.0.0.1", "http://[", "https://a:1/b?c", None)),
            "httpTimeout": self._one_of(("1s", "1m30s", "-1s", "1", 5, "", None, "0", "1.5h")),
            "managedResources": resources,
            "ignorable": self._one_of((True, "false", None, 0)),
            "nodeCacheCapable": self._one_of((False, None)),
        }
        name = self._one_of(tuple(changes))
        entry[name] = changes[name]

    def _entry(self, made: Json) -> Json:
        extenders = made.get("extenders")
        if not isinstance(extenders, list) or not extenders:
            return {}
        found = self._one_of(extenders)
        return found if isinstance(found, dict) else {}

    def _tls(self, made: Json) -> None:
        known = self._certificates
        junk = _base64(b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
        given = self._some(
            caData=(known.ca, known.ca, known.key, junk, _base64(b"x"), "!"),
            certData=(known.certificate, known.certificate, known.ca, junk),
            keyData=(known.key, known.key, known.other_key, known.certificate),
            insecure=(True, False, False, None),
            serverName=("placet", 5),
            caFile=("/nowhere/ca.crt", ""),
        )
        entry = self._entry(made)
        entry.update({"tlsConfig": given, "urlPrefix": "https://127.0.0.1:12345/api/scheduler"})
        entry["enableHTTPS"] = self._often()

    def _number(self, made: Json) -> None:
        name, values = self._one_of(
            (
                ("parallelism", (1, 0, -1, 2**31 - 1, 2**31, "8", None, 8.0, 8.5)),
                ("podInitialBackoffSeconds", (0, 1, 5, 10, 11, -1, None)),
                ("podMaxBackoffSeconds", (0, 1, 9, 10, 300, None)),
                ("percentageOfNodesToScore", (100, 101, -1, "100")),
                ("enableProfiling", (True, False, None, "true")),
                ("delayCacheUntilActive", (True, None, 1)),
                ("clientConnection", ({"burst": -1}, {"qps": 1e40}, {"qps": "5"}, {"qps": 50.5})),
            )
        )
        made[name] = self._one_of(values)

    def _misspelled(self, made: Json) -> None:
        place = self._one_of((made, self._entry(made), self._profile(made)))
        for name in list(place)[:1] if self._often() else list(place)[-1:]:
            place[self._one_of((name.upper(), f"{name}s", name))] = place.pop(name)

    def _wrong_type(self, made: Json) -> None:
        place = self._one_of((made, self._entry(made), self._profile(made)))
        if place:
            place[self._one_of(tuple(place))] = self._one_of(({}, [], "x", 1, True, None))

    def _null(self, made: Json) -> None:
        place = self._one_of((made, self._entry(made), self._profile(made)))
        names = [name for name in place if name not in ("apiVersion", "kind")]
        if names:
            place[self._one_of(names)] = None

    def _version(self, made: Json) -> None:
        group = "kubescheduler.config.k8s.io"
        if self._often():
            made["apiVersion"] = self._one_of((f"{group}/v1beta3", f"{group}/v1", "v1", "", 1))
        else:
            made["kind"] = self._one_of(("KubeSchedulerConfig", "Policy", "", None))

    # ---- the text

    def _text(self, made: Json) -> str:
        if self._often(0.25):
            text = json.dumps(made, indent=self._one_of((None, 2)))
            return f"{text}\n# the end\n" if self._often(0.1) else text
        text = yaml.safe_dump(made, sort_keys=False, default_flow_style=self._often(0.05))
        head = self._one_of(("", "", "---\n", "# mine\n", "# mine\n---\n"))
        return f"{head}{text}"


# ---- changes of a text

# What may stand in place of a value, and in place of a line.
_VALUES = (
    *("1e3", "0x10", "010", "1_000", "yes", "on", "~", "null", "{}", "[]", "1.0", "-1", "+5", ".5"),
    *("2147483648", "5s", "''", "true", "TRUE", "!!str 5", "!!int '5'", "2020-01-01", "1:30", "|"),
    *("&a 5", "*a", "'a'"),
)
_LINES = ("---", "# c", "...", "", "  ", "\t", "%YAML 1.1")


def changed_text(text: str, random: Random) -> str:
    """The text with one change of a line: of its place, its blanks, its name or its value."""
    lines = text.split("\n")
    at = random.randrange(len(lines))
    line, other = lines[at], random.randrange(len(lines))
    name, colon, value = line.partition(":")
    cut, key = random.randrange(len(line) + 1), name.strip(" -")
    named = line.replace(key, random.choice((key.upper(), key.capitalize(), f"{key}s")), 1)
    changes = [
        [*lines[:at], *lines[at + 1 :]],
        [*lines[:at], line, *lines[at:]],
        [*lines[:at], random.choice(_LINES), *lines[at:]],
        [*lines[:at], f"  {line}", *lines[at + 1 :]],
        [*lines[:at], line.removeprefix(" "), *lines[at + 1 :]],
        [*lines[:at], line.replace(": ", ":", 1), *lines[at + 1 :]],
        [*lines[:at], line[:cut] + line[cut + 1 :], *lines[at + 1 :]],
        [*lines[:at], line[:cut][::-1][:2] + line[cut:], *lines[at + 1 :]],
        [*lines[:at], lines[other], *lines[at + 1 :]],
        lines[: at + 1],
    ]
    if colon:
        said = (f'"{value.strip()}"', "", random.choice(_VALUES))
        changes += [[*lines[:at], f"{name}: {each}", *lines[at + 1 :]] for each in said]
        changes.append([*lines[:at], named, *lines[at + 1 :]])
    return "\n".join(random.choice(changes))
