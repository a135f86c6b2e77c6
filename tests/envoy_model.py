"""
The reference service as its specification words it: joined texts, one counter for each text and window, nothing clever.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800, "month": 2_592_000, "year": 31_536_000}
UNLIMITED = 4294967295


@dataclass
class Model:
    """
    One domain and its counters.
    """

    tree: dict[str, Any]
    counters: dict[str, int] = field(default_factory=dict)

    def check(self, now: int, descriptors: list[dict[str, Any]], hits: int = 0) -> tuple[str, list[str]]:
        """
        The overall code, and the statuses as the tables write them.
        """
        found = [self.limit(ask) for ask in descriptors]
        replaced = {item["name"] for limit in found if limit for item in limit.get("replaces", ())}
        counted = [limit for limit in found if limit and not limit.get("unlimited") and limit.get("name", "") not in replaced - {""}]
        # What is given back is given back first.
        for ask, limit in zip(descriptors, found, strict=True):
            if ask.get("is_negative_hits") and any(limit is one for one in counted):
                self.add(now, limit or {}, -ask["hits_addend"])
        answers: list[tuple[str, bool, bool]] = []
        for ask, limit in zip(descriptors, found, strict=True):
            if limit is not None and limit.get("unlimited"):
                answers.append(("unlimited", False, False))
            elif limit is None or not any(limit is one for one in counted):
                answers.append(("none", False, False))
            else:
                answers.append(self.count(now, limit, 0 if ask.get("is_negative_hits") else ask.get("hits_addend", hits or 1)))
        quotas = [is_over for _, is_over, is_quota in answers if is_quota]
        is_denied = any(is_over and not is_quota for _, is_over, is_quota in answers) or (bool(quotas) and all(quotas))
        return "OVER_LIMIT" if is_denied else "OK", [text for text, _, _ in answers]

    def add(self, now: int, limit: dict[str, Any], hits: int) -> int:
        """
        Counts hits, and says how many there are.
        """
        length = UNITS[limit["unit"].lower()]
        # The unit is part of it: windows of two lengths that begin together are not one.
        key = f"{limit['key']}{now - now % length} {length}"
        self.counters[key] = max(self.counters.get(key, 0) + hits, 0)
        return self.counters[key]

    def count(self, now: int, limit: dict[str, Any], hits: int) -> tuple[str, bool, bool]:
        """
        Counts one descriptor; says its status, whether it is over and enforced, and whether it is a quota.
        """
        length, allowed = UNITS[limit["unit"].lower()], limit["requests_per_unit"]
        used = self.add(now, limit, hits)
        is_over = used > allowed
        is_shadow, is_quota = limit.get("shadow_mode", False), limit.get("quota_mode", False)
        code = "OVER_LIMIT" if is_over and not is_shadow else "OK"
        words = [code, str(max(allowed - used, 0)), f"of {allowed}/{limit['unit'].upper()} in {length - now % length}"]
        words += [name] if (name := limit.get("name")) else []
        words += ["shadowed"] if is_over and is_shadow else []
        words += ["quota"] if is_quota else []
        return " ".join(words), code != "OK", is_quota

    def limit(self, ask: dict[str, Any]) -> dict[str, Any] | None:
        """
        The limit of a descriptor, with what belongs to it and the text of its counter.
        """
        if "limit" in ask:
            return {**ask["limit"], "key": "".join(f"{key}_{value}_" for key, value in ask["entries"])}
        level = self.tree["descriptors"]
        text, limit, node = "", None, None
        for key, value in ask["entries"]:
            node = self.step(level, key, value)
            if node is None:
                return None
            is_shared = node.get("share_threshold", False)
            text += f"{key}_{node['value'] if is_shared else value}_"
            level, limit = node.get("descriptors", []), node.get("rate_limit")
        if limit is None or node is None:
            return None
        return {**limit, "key": text, "shadow_mode": node.get("shadow_mode"), "quota_mode": node.get("quota_mode")}

    @staticmethod
    def step(level: list[dict[str, Any]], key: str, value: str) -> dict[str, Any] | None:
        """
        The node of one entry: exact, then patterns, then the default.
        """
        nodes = {f"{node['key']}_{node['value']}" if node.get("value") else node["key"]: node for node in level}
        joined = f"{key}_{value}"
        if joined in nodes:
            return nodes[joined]
        for identity, node in nodes.items():
            if "*" in identity and re.fullmatch(".*".join(map(re.escape, identity.split("*"))), joined, re.DOTALL):
                return node
        return nodes.get(key)
