"""
From a path to a rule set: read, check everything, compile.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate._garbage import garbage_waits
from tidegate.errors import RuleError
from tidegate.rules import envoy
from tidegate.rules.checks import Draft, check_set
from tidegate.rules.compile import compile_rules
from tidegate.rules.fields import FILE, read_fields
from tidegate.rules.files import Files
from tidegate.rules.identity import read_identity
from tidegate.rules.jwt import read_jwt
from tidegate.rules.names import DOMAIN_NAME
from tidegate.rules.node import Mapping, Node, Scalar
from tidegate.rules.problem import Problem, Report, TooManyProblems
from tidegate.rules.rule import read_rules
from tidegate.rules.scalars import quoted, read_text

if TYPE_CHECKING:
    import os

    from tidegate.rules.document import Document
    from tidegate.rules.model import Jwt, Rule, Source

DOMAIN_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class RuleSet:
    """
    Everything that a file or a directory says, checked and compiled.

    Args:
        ir: The document that the engine loads. It may hold a secret: it is for the engine, not for logs.
        rules: The rules, in the order of the files.
        files: Every file and directory that was read, for watching.
        warnings: What is probably not meant, and does no harm.
        domain: The name of the set.
        identity: How clients are named.
        merge_domains: Whether files of one domain were merged.
    """

    ir: dict[str, Any] = field(repr=False)
    rules: tuple[Rule, ...] = field(repr=False)
    files: tuple[Path, ...]
    warnings: tuple[Problem, ...]
    domain: str
    identity: tuple[Source, ...] = ()
    merge_domains: bool = False

    def to_json(self) -> str:
        """
        The document that the engine loads, as text.

        Returns:
            The RuleSet IR in JSON.
        """
        return json.dumps(self.ir, ensure_ascii=False, separators=(",", ":"))


def load(source: str | os.PathLike[str], *, text: str | None = None, merge_domains: bool = False) -> RuleSet:
    """
    Loads rules.

    Args:
        source: The path of a file, or of a directory with all its `*.yaml`, `*.yml` and `*.json`.
        text: What the file says, if that is not to be read from it: from an editor, or from a database.
        merge_domains: Whether several files of the reference rate limit service may have one domain.

    Returns:
        The rule set.

    Raises:
        RuleError: Something is wrong; it lists all problems with their places.
    """
    with garbage_waits():
        rule_set, problems = _load(Path(source), text, merge_domains=merge_domains)
    if rule_set is None:
        raise RuleError.from_problems(problems)
    return rule_set


def _load(source: Path, text: str | None, *, merge_domains: bool) -> tuple[RuleSet | None, tuple[Problem, ...]]:
    # A function of its own, so that the nodes are gone when it returns.
    loading = _Loading(Report(), merge_domains=merge_domains)
    try:
        loading.gather(source, text)
        rule_set = loading.finish()
    except TooManyProblems:
        return None, loading.problems()
    return None if loading.report.has_errors else rule_set, loading.problems()


class _Loading:
    """
    One load, step by step.

    Args:
        report: Where problems are collected.
        merge_domains: As for `load`.
    """

    def __init__(self, report: Report, *, merge_domains: bool) -> None:
        self.report = report
        self.merge_domains = merge_domains
        self.files = Files(report)
        self.sections: dict[str, tuple[Document, Node]] = {}
        self.entries: list[tuple[Document, dict[str, tuple[Scalar, Node]]]] = []

    def gather(self, source: Path, text: str | None) -> None:
        self.files.gather(source, text)
        for document in self.files.documents:
            if document.root is not None:
                self.sort(document, document.root)

    def sort(self, document: Document, root: Node) -> None:
        if isinstance(root, Mapping) and "descriptors" in root.entries:
            message = "`descriptors` belong to the format of the reference service, and this file is one of rules"
            document.add("mixed-formats", root.entries["descriptors"][0], message, "write two files, and load the directory")
            return
        entries = read_fields(document, root, FILE, "a file of rules")
        if entries is None:
            return
        self.entries.append((document, entries))
        self.check_version(document, entries)
        for name in ("domain", "identity", "jwt"):
            if name in entries:
                self.take_section(document, name, *entries[name])

    def check_version(self, document: Document, entries: dict[str, tuple[Scalar, Node]]) -> None:
        if "version" in entries:
            node = entries["version"][1]
            if not isinstance(node, Scalar) or not node.is_plain or node.text != "1":
                shown = (
                    quoted(node.text)
                    if isinstance(node, Scalar) and not node.is_plain
                    else node.text
                    if isinstance(node, Scalar)
                    else "this"
                )
                document.add("unknown-version", node, f"{shown:.40} is no version of the language", "write `version: 1`")

    def take_section(self, document: Document, name: str, key: Scalar, node: Node) -> None:
        if document.name in self.files.included:
            document.add("include-section", key, f"an included file cannot have `{name}`", f"move `{name}` to the file that includes it")
        elif name in self.sections:
            first = self.sections[name][0].name
            document.add("section-twice", key, f"`{name}` is given by two files: {first} is the other", "keep one of them")
        else:
            self.sections[name] = (document, node)

    def finish(self) -> RuleSet:
        domain = self.domain()
        identity = read_identity(*self.sections["identity"]) if "identity" in self.sections else ()
        jwt = self.jwt()
        drafts = [
            Draft(document, node, rule)
            for document, entries in self.entries
            if "rules" in entries
            for rule, node in read_rules(document, entries["rules"][1], identity)
        ]
        domains = self.domains()
        check_set(drafts, identity, self.sections, has_domains=bool(domains), documents=[document for document, _ in self.entries])
        rules = tuple(draft.rule for draft in drafts)
        ir = {} if self.report.has_errors else compile_rules(domain, identity, jwt, rules, domains)
        files = tuple(dict.fromkeys(self.files.opened))
        return RuleSet(ir, rules, files, self.report.warnings, domain, identity, self.merge_domains)

    def domain(self) -> str:
        if "domain" not in self.sections:
            return DOMAIN_DEFAULT
        document, node = self.sections["domain"]
        text = read_text(document, node)
        if text is not None and not DOMAIN_NAME.fullmatch(text):
            document.add("bad-name", node, f"`{text:.80}` cannot be a domain", "write up to 128 letters, digits, `_`, `-` and `.`")
        return text or DOMAIN_DEFAULT

    def jwt(self) -> Jwt | None:
        if "jwt" not in self.sections:
            return None
        document, node = self.sections["jwt"]
        return read_jwt(document, node, self.files.note_opened)

    def domains(self) -> list[Any]:
        domains, problems = envoy.load(self.files.descriptors, merge_domains=self.merge_domains)
        for problem in problems:
            self.report.add(problem)
        return domains

    def problems(self) -> tuple[Problem, ...]:
        order = {document.name: number for number, document in enumerate(self.files.documents)}
        key = lambda problem: (order.get(problem.file, -1), problem.line, problem.column)  # noqa: E731  # used once
        return tuple(sorted(dict.fromkeys(self.report.problems), key=key))
