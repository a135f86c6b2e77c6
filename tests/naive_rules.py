"""
What rules mean, written down a second time: from the specification of the language, one rule after the other, without any index.

A rule file is a Python object here, as JSON would give it.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

Facts = dict[str, str]


@dataclass(frozen=True)
class Found:
    """
    What becomes of one rule.
    """

    rule: str
    outcome: str
    key: tuple[str, ...] = ()
    quotas: tuple[str, ...] = ()
    cost: int | None = None
    mode: str = "enforce"


def naive_path(text: str) -> str:
    """
    The one spelling of a path: decoded, but for blanks and for what would separate or end it.
    """
    kept: list[str] = []
    for raw in re.split(r"[?#]", text, maxsplit=1)[0].split("/"):
        segment = re.sub(r"[\x00-\x20\x7f/%?#]", lambda found: f"%{ord(found[0]):02X}", unquote(raw))
        if segment == "..":
            kept = kept[:-1]
        elif segment not in {"", "."}:
            kept.append(segment)
    return "/" + "/".join(kept)


def naive_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """
    An address; IPv4 inside IPv6 is IPv4.
    """
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def naive_facts(file: dict[str, Any], request: dict[str, Any]) -> Facts:
    """
    The request as the rules see it, and who the client is.
    """
    facts: Facts = {}
    for name, value in request.items():
        if name == "headers":
            facts |= {f"header:{header.lower()}": text for header, text in value.items()}
        elif name == "query":
            facts |= {f"query:{parameter}": text for parameter, text in value.items()}
        elif value is not None:
            facts[name] = str(value)
    if "method" in facts:
        facts["method"] = facts["method"].upper()
    if "host" in facts:
        facts["host"] = re.sub(r":\d*$", "", facts["host"]).rstrip(".").lower()
    if "path" in facts:
        facts["path"] = naive_path(facts["path"])
    if "ip" in facts and (address := naive_address(facts["ip"])) is not None:
        facts["ip"] = str(address)
    facts = {name: value for name, value in facts.items() if value}
    _identify(file.get("identity", []), facts)
    return facts


def _identify(sources: list[dict[str, Any]], facts: Facts) -> None:
    client = None
    for source in sources:
        name, value = _named_by(source, facts)
        if value is None:
            continue
        if client is None:
            client = f"{name}:{value}" if len(sources) > 1 else value
        if name != "ip":
            facts[name] = value
    # Whom no source names is nobody, whatever the caller calls it.
    if sources:
        facts.pop("client", None)
    if client is not None:
        facts["client"] = client


def _named_by(source: dict[str, Any], facts: Facts) -> tuple[str, str | None]:
    if "header" in source:
        header = source["header"].lower()
        return source.get("as", header.removeprefix("x-").replace("-", "_")), facts.get(f"header:{header}")
    if "attribute" in source:
        return source["attribute"], facts.get(source["attribute"])
    address = naive_address(facts.get("ip", ""))
    if address is None:
        return "ip", None
    trusted = [ipaddress.ip_network(text) for text in source["ip"].get("trusted_proxies", [])]
    hops = facts.get("header:x-forwarded-for", "").split(",")
    while hops and any(address in network for network in trusted):
        hop = naive_address(hops.pop())
        if hop is None:
            break
        address = hop
    facts["ip"] = str(address)
    return "ip", _network(str(address), source["ip"].get("ipv6_prefix", 64))


def _network(text: str, prefix: int) -> str:
    address = naive_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, prefix), strict=False).network_address)
    return text


# --- Conditions -------------------------------------------------------------------------------------------------------------------------


def fits_glob(pattern: str, text: str) -> bool:
    """
    `*` is any characters, `?` is one.
    """
    expression = "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in pattern)
    return re.fullmatch(expression, text, re.DOTALL) is not None


def captures_of(pattern: str, path: str) -> dict[str, str] | None:
    """
    What a pattern captures of a path; `None` if it does not fit.
    """
    wanted, found = (text.strip("/").split("/") if text.strip("/") else [] for text in (pattern, path))
    if wanted and wanted[-1] == "**":
        wanted = wanted[:-1]
        found = found[: len(wanted)] if len(found) >= len(wanted) else found
    if len(wanted) != len(found):
        return None
    captured = {}
    for segment, text in zip(wanted, found, strict=True):
        if segment.startswith("{"):
            captured[segment[1:-1]] = text
        elif not fits_glob(segment, text):
            return None
    return captured


def holds(attribute: str, condition: Any, value: str | None) -> bool:  # noqa: ANN401  # as JSON gives it
    """
    Whether a condition holds. What is absent passes no test, and so every negated one.
    """
    if not isinstance(condition, dict):
        condition = {{"path": "pattern", "host": "glob"}.get(attribute, "exact"): condition}
    if "not" in condition:
        return not holds(attribute, condition["not"], value)
    if "present" in condition:
        return (value is not None) is bool(condition["present"])
    if value is None:
        return False
    ((test, texts),) = [item for item in condition.items() if item[0] != "ignore_case"]
    texts = texts if isinstance(texts, list) else [texts]
    if condition.get("ignore_case") or attribute in {"method", "host"}:
        # A regular expression is no text that could be folded, but a flag does the same.
        texts = [f"(?i:{text})" if test == "regex" else text.lower() for text in texts]
        value = value.lower()
    return any(_passes(test, text, value) for text in texts)


def _passes(test: str, text: str, value: str) -> bool:
    if test == "cidr":
        address = naive_address(value)
        return address is not None and address in ipaddress.ip_network(text)
    answers = {
        "exact": lambda: value == text,
        "prefix": lambda: value.startswith(text),
        "suffix": lambda: value.endswith(text),
        "glob": lambda: fits_glob(text, value),
        "regex": lambda: re.fullmatch(text, value) is not None,
        "pattern": lambda: captures_of(text, value) is not None,
    }
    return answers[test]()


# --- Rules ------------------------------------------------------------------------------------------------------------------------------


def naive_explain(file: dict[str, Any], request: dict[str, Any]) -> list[Found]:
    """
    What becomes of each rule, in the order in which they are looked at.
    """
    facts = naive_facts(file, request)
    found = []
    is_stopped = False
    for rule in sorted(file["rules"], key=lambda rule: -rule.get("priority", 0)):
        if rule.get("mode") == "off":
            found.append(Found(rule["name"], "off"))
        elif is_stopped:
            found.append(Found(rule["name"], "stopped"))
        else:
            found.append(_evaluate(file, rule, facts))
            is_stopped = found[-1].outcome == "applies" and rule.get("stop", False)
    return found


def _evaluate(file: dict[str, Any], rule: dict[str, Any], facts: Facts) -> Found:
    for name, condition in rule.get("match", {}).items():
        group = {"headers": "header", "query": "query"}.get(name)
        asked = {name: condition} if group is None else {f"{group}:{inner.lower()}": value for inner, value in condition.items()}
        if not all(holds(attribute, value, facts.get(attribute)) for attribute, value in asked.items()):
            return Found(rule["name"], "no_match")
    per = rule.get("per", [])
    names = [] if per == "global" else [per] if isinstance(per, str) else per
    values = [_key_value(file, rule, facts, name) for name in names]
    if None in values:
        return Found(rule["name"], "no_key")
    key = tuple(f"{name}={value}" for name, value in zip(names, values, strict=True))
    mode = "shadow" if rule.get("mode") == "shadow" or rule.get("rollout") == "0%" else "enforce"
    return Found(rule["name"], "applies", key, _plan(rule, values, facts), _cost(file, rule, facts), mode)


def _key_value(file: dict[str, Any], rule: dict[str, Any], facts: Facts, name: str) -> str | None:
    patterns = rule.get("match", {}).get("path", [])
    patterns = patterns.get("pattern", []) if isinstance(patterns, dict) else patterns
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        captured = captures_of(pattern, facts.get("path", ""))
        if captured is not None and name in captured:
            return captured[name]
    if any(f"{{{name}}}" in pattern for pattern in ([patterns] if isinstance(patterns, str) else patterns)):
        return None
    if name == "ip" and "ip" in facts:
        prefix = next((source["ip"].get("ipv6_prefix", 64) for source in file.get("identity", []) if "ip" in source), 64)
        return _network(facts["ip"], prefix)
    return facts.get(name)


def _plan(rule: dict[str, Any], values: list[str | None], facts: Facts) -> tuple[str, ...]:
    plan = rule.get("quotas", [])
    plan = rule.get("tiers", {}).get(facts.get("tier"), plan)
    for override in rule.get("overrides", []):
        if list(override["key"].values()) == values:
            plan = rule["tiers"][override["tier"]] if "tier" in override else override["quotas"]
    return tuple([plan] if isinstance(plan, str) else plan)


def _cost(file: dict[str, Any], rule: dict[str, Any], facts: Facts) -> int:
    cost = rule.get("cost", 1)
    if isinstance(cost, int):
        return cost
    if isinstance(cost, str):
        cost = {"attribute": cost}
    stated = _key_value(file, rule, facts, cost["attribute"]) or ""
    units = int(stated) if re.fullmatch("[0-9]+", stated) else cost.get("default", 1)
    return int(min(units, cost.get("max", 2**53)))
