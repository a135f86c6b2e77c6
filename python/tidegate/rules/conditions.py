"""
The section `match`: what a rule asks of a request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import tidegate._native
from tidegate.rules.addresses import read_address, read_network
from tidegate.rules.fields import CONDITION, TESTS
from tidegate.rules.model import Condition, Test
from tidegate.rules.names import HEADER_NAME, meant, read_attribute
from tidegate.rules.node import Mapping, Node, Scalar, kind_of
from tidegate.rules.patterns import check_pattern
from tidegate.rules.scalars import read_flag, read_text, read_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.rules.document import Document

_DEFAULT_TESTS: dict[str, Test] = {"path": "pattern", "host": "glob"}
_FOLDED = frozenset({"method", "host"})
_NO_ADDRESS = frozenset({"method", "path"})


def read_match(document: Document, node: Node) -> tuple[Condition, ...]:
    """
    The conditions of a rule.

    Args:
        document: Where problems are noted.
        node: What stands under `match`.

    Returns:
        Those that are right, in their order.
    """
    if not isinstance(node, Mapping):
        document.add("wrong-type", node, f"`match` is a mapping, and this is {kind_of(node)}", "write {method: POST, path: /login}")
        return ()
    found: dict[str, Condition] = {}
    for key, attribute, value in _attributes(document, node):
        if attribute in found:
            document.add("duplicate-key", key, f"there are two conditions on `{attribute:.80}`", "write one: a list means any of them")
        condition = _read_condition(document, attribute, value)
        if condition is not None:
            found[attribute] = condition
    return tuple(found.values())


def _attributes(document: Document, node: Mapping) -> Iterator[tuple[Scalar, str, Node]]:
    for name, (key, value) in node.entries.items():
        if name in {"headers", "query"}:
            yield from _group(document, name, value)
            continue
        text = read_text(document, key)
        attribute = None if text is None else read_attribute(document, key, text)
        if attribute is not None:
            yield key, attribute, value


def _group(document: Document, group: str, node: Node) -> Iterator[tuple[Scalar, str, Node]]:
    if not isinstance(node, Mapping):
        document.add("wrong-type", node, f"`{group}` is a mapping, and this is {kind_of(node)}", f"write {group}: {{name: value}}")
        return
    for key, value in node.entries.values():
        name = read_text(document, key)
        if name is None:
            continue
        if group == "query":
            yield key, f"query:{name}", value
        elif HEADER_NAME.fullmatch(name):
            yield key, f"header:{name.lower()}", value
        else:
            document.add("bad-attribute", key, f"`{name:.80}` is no name of a header", "write letters, digits and -, as in x-api-key")


def _read_condition(document: Document, attribute: str, node: Node) -> Condition | None:
    if isinstance(node, Mapping):
        return _read_mapping(document, attribute, node)
    return _read_test(document, attribute, _DEFAULT_TESTS.get(attribute, "exact"), node)


def _read_test(document: Document, attribute: str, test: Test, node: Node) -> Condition | None:
    texts = []
    for scalar, text in read_texts(document, node):
        value = _read_value(document, attribute, test, scalar, text)
        if value is not None:
            texts.append(value)
    return Condition(attribute, test, tuple(texts), ignore_case=attribute in _FOLDED) if texts else None


def _read_value(document: Document, attribute: str, test: Test, scalar: Scalar, text: str) -> str | None:
    if test == "pattern":
        return text if check_pattern(document, scalar, text) else None
    if test == "cidr":
        return read_network(document, scalar, text)
    if test == "regex":
        return text if _check_regex(document, scalar, text) else None
    if test == "exact" and attribute == "ip":
        return read_address(document, scalar, text)
    return text


def _check_regex(document: Document, scalar: Scalar, text: str) -> bool:
    # A build of the compiled module from before the rule engine does not have it; the engine then refuses what is wrong.
    check: Any = getattr(tidegate._native, "check_regex", None)  # noqa: SLF001  # the waist
    mistake = None if check is None else check(text)
    if mistake is not None:
        is_size = "size limit" in mistake
        hint = "repeat less: it would need too much memory" if is_size else "look-around and back-references are not possible"
        document.add("bad-regex", scalar, f"the regular expression cannot be read: {_last_line(mistake)}", hint)
    return mistake is None


def _last_line(message: str) -> str:
    # The parser draws the expression with a caret first; the file is shown with one anyway.
    return message.strip().rpartition("\n")[2].removeprefix("error: ").rstrip(".")


def _read_mapping(document: Document, attribute: str, node: Mapping) -> Condition | None:
    tests = [name for name in node.entries if name in TESTS or name in {"present", "not"}]
    unknown = [name for name in node.entries if name not in CONDITION]
    for name in unknown:
        document.add("unknown-key", node.entries[name][0], f"a condition has no `{name:.80}`", meant(name, CONDITION))
    if len(tests) != 1:
        if tests or not unknown:
            message = f"a condition has exactly one test, and this has {', '.join(tests) or 'none'}"
            document.add("bad-condition", node, message, f"keep one of {', '.join(name for name in CONDITION if name != 'ignore_case')}")
        return None
    name = tests[0]
    value = node.entries[name][1]
    found = _read_named(document, attribute, name, value, node.entries[name][0])
    flag = node.get("ignore_case")
    ignore_case = None if flag is None else read_flag(document, flag)
    if found is None or ignore_case is None:
        return found
    is_folded = ignore_case or attribute in _FOLDED
    return Condition(found.attribute, found.test, found.texts, found.is_negated, is_folded)


def _read_named(document: Document, attribute: str, name: str, value: Node, key: Scalar) -> Condition | None:
    if name == "present":
        flag = read_flag(document, value)
        return None if flag is None else Condition(attribute, "present", is_negated=not flag)
    if name == "not":
        if isinstance(value, Mapping) and "not" in value.entries:
            document.add("bad-condition", value, "`not` of `not`", "remove both")
            return None
        inner = _read_condition(document, attribute, value)
        return inner and Condition(attribute, inner.test, inner.texts, not inner.is_negated, inner.ignore_case)
    if name == "pattern" and attribute != "path":
        document.add("bad-condition", key, f"`pattern` is for `path`, and this is `{attribute:.80}`", "use `glob`")
        return None
    if name == "cidr" and attribute in _NO_ADDRESS:
        document.add("bad-condition", key, f"`cidr` is for addresses, and `{attribute}` is none", "use it for `ip`")
        return None
    return _read_test(document, attribute, cast(Test, name), value)
