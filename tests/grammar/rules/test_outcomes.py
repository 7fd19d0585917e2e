"""Checks of conditions: absent keys, constants, contradictions and what another one implies."""

from __future__ import annotations

from tests.grammar.rules.helpers import findings, found
from tests.support.books import table

KEY = 'node.labels["disk"]'


# ---- P0301: a negation of a key that may be absent


@table(
    """
    case                                        | items
    a label that is not equal to a text         | filter "f" { require «KEY != "hdd"» }
    the other way round                         | filter "f" { require «"hdd" != KEY» }
    a negated equality                          | filter "f" { require «!(KEY == "hdd")» }
    a label that is not in a list               | filter "f" { require «!(KEY in ["hdd", "tape"])» }
    a label that does not start with a text     | filter "f" { require «!KEY.startsWith("h")» }
    an annotation of the pod, in `for`          | for pods where «pod.annotations["team"] != "a"»
    in `when`
         | score "s" weight 1 when «pod.labels["a"] != "b"» { value 1 }
    in `pods where`
         | limit "l" { pods where «peer.labels["a"] != "b"» per node at most 1 strict }
    in `for`, about which the policy has no rule
         | missing pass for pods where «pod.annotations["team"] != "a"»
    a guard that comes too late                 | filter "f" { require «KEY != "hdd"» && has(KEY) }
    a guard of another key
         | filter "f" { require has(node.labels["other"]) && «KEY != "hdd"» }
    # near misses
    not an equality                             | filter "f" { require KEY == "ssd" }
    not a list it is in                         | filter "f" { require KEY in ["ssd"] }
    not a test it passes                        | filter "f" { require KEY.contains("s") }
    not a value in its place
         | filter "f" { require node.labels[?"disk"].orValue("") != "hdd" }
    not with `missing pass`                     | filter "f" { require KEY != "hdd" missing pass }
    not with `missing fail`                     | filter "f" { require KEY != "hdd" missing fail }
    not with a rule of the policy               | missing fail filter "f" { require KEY != "hdd" }
    not behind `has`                            | filter "f" { require has(KEY) && KEY != "hdd" }
    not behind `in`
         | filter "f" { require "disk" in node.labels && KEY != "hdd" }
    not in an `||` behind its absence
         | filter "f" { require !("disk" in node.labels) || KEY != "hdd" }
    not a key that a macro goes over
         | filter "f" { require node.labels.all(k, node.labels[k] != "hdd") }
    not a field                                 | filter "f" { require node.name != "n1" }
    not a score's value                         | score "s" weight 1 { value KEY != "hdd" }
    not a side: a node without the label is off
         | share "s" { pods where true on nodes where KEY != "hdd" at most 1 strict }
    """
)
def test_absent_keys(items: str) -> None:
    text, wanted = findings(items, "P0301", KEY=KEY)
    assert found(text, ["P0301"]) == wanted


# ---- P0317: a key that may be absent, where that protects a victim

DB = 'victim.labels["db"]'


@table(
    """
    case           | parts
    a comparison   | protect pods where «DB» == "1"
    a negation     | protect pods where «DB» != "1"
    `&&`           | protect pods where victim.priority > 9 && «DB» == "1"
    an annotation  | protect pods where «victim.annotations["a"]» == "b"
    # near misses
    a rule         | protect pods where DB == "1" missing fail
    the other rule | protect pods where DB == "1" missing pass
    behind `in`    | protect pods where "db" in victim.labels && DB == "1"
    `has`          | protect pods where has(DB)
    `orValue`      | protect pods where victim.labels[?"db"].orValue("") == "1"
    a field        | protect pods where victim.name == "db"
    not in `allow` | require victims.all(v, v.labels["a"] == "1")
    """
)
def test_silent_protections(parts: str) -> None:
    text, wanted = findings(parts, "P0317", DB=DB)
    assert found(f'preempt "p" {{ {text} }}', ["P0317"]) == wanted


# ---- P0302: a condition that is always the same


@table(
    """
    case                                 | items
    a constant comparison                | filter "f" { require «1 < 2» }
    a constant that decides an `||`      | filter "f" { require «node.ready || true» }
    a constant that decides an `&&`      | filter "f" { require «node.ready && false» }
    an operand that says nothing         | filter "f" { require node.ready && «1 < 2» }
    a condition of constants alone       | filter "f" { require «true ? 1 > 2 : node.ready» }
    a function of constants              | filter "f" { require «size("abc") == 3» }
    a `when`                             | filter "f" when «false» { require node.ready }
    a `pods where`
         | limit "l" { pods where «1 == 1» per node at most 1 strict }
    not all pods, as meant               | limit "l" { pods where true per node at most 1 strict }
    not the pods of a sum, which are all
         | limit "l" { sum peer.requests["cpu"] of pods where true per node at most 1 strict }
    an `require`                      | preempt "p" { require «1 == 1» }
    a `for` that comes to false          | for pods where «1 > 2»
    # near misses
    not `for pods where true`: all pods  | for pods where true
    not `for pods where false`: for use  | for pods where false
    not a `for` that comes to true       | for pods where 1 < 2
    not a condition of the node          | filter "f" { require node.ready }
    not a tautology                      | filter "f" { require node.ready || !node.ready }
    not a constant error                 | filter "f" { require 1 / 0 == 1 }
    not constants of a choice            | filter "f" { require node.ready ? true : false }
    not the value of a score             | score "s" weight 1 { value 1 }
    """
)
def test_constant_conditions(items: str) -> None:
    text, wanted = findings(items, "P0302")
    assert found(text, ["P0302"]) == wanted


# ---- P0310 and P0311: filters that no node passes together, and that others imply


CPU = 'node.allocatable["cpu"]'


@table(
    """
    case                              | code  | first                   | second
    two texts of one path             | P0310 | node.zone == "a"        | node.zone == "b"
    a text and its negation           | P0310 | node.zone == "a"        | node.zone != "a"
    lists that have nothing in common | P0310 | node.zone in ["a", "b"] | node.zone in ["c"]
    ranges that do not meet           | P0310 | CPU > "8"               | CPU < "8"
    up to an edge of it               | P0310 | CPU >= "8"              | CPU < "8"
    mirrored                          | P0310 | "8" < CPU               | CPU <= "4"
    a wider range                     | P0311 | CPU >= "8"              | CPU >= "4"
    a wider edge                      | P0311 | CPU > "4"               | CPU >= "4"
    a wider list                      | P0311 | node.zone == "a"        | node.zone in ["a", "b"]
    a text that is another one        | P0311 | node.zone == "a"        | node.zone != "b"
    the same again                    | P0311 | node.zone == "a"        | node.zone == "a"
    # near misses
    not two paths                     |       | node.zone == "a"        | node.name == "b"
    not a stricter one                |       | node.zone in ["a", "b"] | node.zone == "b"
    not ranges that meet              |       | CPU >= "4"              | CPU <= "4"
    not a narrower range              |       | CPU > "4"               | CPU > "5"
    not a narrower upper edge         |       | CPU <= "8"              | CPU < "8"
    not a narrower lower edge         |       | CPU >= "8"              | CPU > "8"
    not with another rule for missing values
                                   |       | node.zone == "a"        | node.zone == "a" missing pass
    not with the pod                  |       | node.zone == pod.name   | node.zone == "b"
    """
)
def test_two_filters(code: str, first: str, second: str) -> None:
    """The second one contradicts the first one (P0310), or follows from it (P0311)."""
    first, second = first.replace("CPU", CPU), second.replace("CPU", CPU)
    items = f'filter "f" {{ require {first} }} filter "g" {{ require {second} }}'
    wanted = [f"{code} {second}"] if code else []
    assert found(items, ["P0310", "P0311"]) == wanted


@table(
    """
    case                      | items
    within one `&&`           | filter "f" { require IN_A && «IN_B» }
    the later only sometimes  | filter "f" { require IN_A } filter "g" HIGH { require «IN_B» }
    # near misses
    not within `||`           | filter "f" { require IN_A || IN_B }
    not under two conditions  | filter "f" HIGH { require IN_A } filter "g" LOW { require IN_B }
    not where the earlier applies only sometimes
         | filter "f" HIGH { require IN_A } filter "g" { require IN_B }
    not a filter and a `bind` | filter "f" { require IN_A } bind "g" { require IN_B }
    """
)
def test_filters_of_one_zone_and_of_another(items: str) -> None:
    zones = {"IN_A": 'node.zone == "a"', "IN_B": 'node.zone == "b"'}
    whens = {"HIGH": "when pod.priority > 0", "LOW": "when pod.priority < 9"}
    text, wanted = findings(items, "P0310", **zones, **whens)
    assert found(text, ["P0310", "P0311"]) == wanted
