"""
Files of the reference rate limit service (`domain:` and `descriptors:`), which load as they are.

One file is one domain. Every strictness of the service is kept; what it ignores silently is told as a warning.
The block `tidegate:` adds what the service does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.rules.document import Document
from tidegate.rules.envoy.compose import compose, is_envoy
from tidegate.rules.envoy.descriptor import Place, read_level
from tidegate.rules.envoy.extension import read_atomic
from tidegate.rules.envoy.files import read_documents
from tidegate.rules.envoy.keys import check_keys
from tidegate.rules.envoy.scalars import read_text
from tidegate.rules.node import Mapping, Scalar, kind_of
from tidegate.rules.problem import Problem, Report, TooManyProblems

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["is_envoy", "load", "load_path"]


def load(documents: Iterable[Document], *, merge_domains: bool = False) -> tuple[list[dict[str, Any]], tuple[Problem, ...]]:
    """
    Reads files of the reference service, all together.

    Args:
        documents: The files. Only their names and texts are looked at: the text is composed once more, by the rules of this format.
        merge_domains: Whether several files may describe one domain; otherwise that is a mistake.

    Returns:
        The domains as the RuleSet IR has them, and all problems. If one of them is an error, the domains are of no use.
    """
    report = Report()
    loading = _Loading(merge_domains=merge_domains)
    try:
        for given in documents:
            document = Document(given.name, given.path, given.text, report)
            compose(document)
            loading.add(document)
    except TooManyProblems:
        pass
    return list(loading.domains.values()), tuple(report.problems)


def load_path(
    source: Path, *, merge_domains: bool = False, ignore_dot_files: bool = False
) -> tuple[list[dict[str, Any]], tuple[Problem, ...]]:
    """
    Reads a file of the reference service, or a directory in which every file is one.

    Args:
        source: Its path.
        merge_domains: Whether several files may describe one domain.
        ignore_dot_files: Whether files whose names begin with a dot are left out.

    Returns:
        See `load`.
    """
    report = Report()
    try:
        documents = read_documents(source, report, ignore_dot_files=ignore_dot_files)
    except TooManyProblems:
        documents = []
    domains, problems = load(documents, merge_domains=merge_domains)
    return domains, (*report.problems, *problems)


class _Loading:
    """
    One load, file by file.

    Args:
        merge_domains: Whether several files may describe one domain.
    """

    def __init__(self, *, merge_domains: bool) -> None:
        self.merge_domains = merge_domains
        self.domains: dict[str, dict[str, Any]] = {}
        self.files: dict[str, str] = {}
        self.seen: dict[str, dict[str, tuple[str, int]]] = {}

    def add(self, document: Document) -> None:
        root = document.root
        if root is None:
            # Either the parser has told why, or there is nothing.
            if not any(problem.file == document.name and problem.is_error for problem in document.report.problems):
                document.add_at("empty-file", 1, 1, "the file is empty", "begin with `domain: ...` and `descriptors:`")
            return
        if not isinstance(root, Mapping):
            document.add("wrong-type", root, f"a file of limits is a mapping, and this is {kind_of(root)}", "begin with `domain: ...`")
            return
        check_keys(document, root)
        domain = read_text(document, root.get("domain"))
        # Something else than a text was told already.
        if not domain and isinstance(root.get("domain"), Scalar | None):
            document.add("empty-domain", root.get("domain") or root, "the file has no domain", "add `domain: ...`")
        is_atomic = read_atomic(document, root)
        known = self.known(document, root, domain, is_atomic=is_atomic)
        known["descriptors"] += read_level(Place(document, domain), root.get("descriptors"), self.seen.setdefault(domain, {}))

    def known(self, document: Document, root: Mapping, domain: str, *, is_atomic: bool) -> dict[str, Any]:
        known = self.domains.get(domain)
        if known is None or not domain:
            self.domains[domain] = known = {"domain": domain, "atomic": is_atomic, "descriptors": []}
            self.files[domain] = document.name
        elif not self.merge_domains:
            message = f"duplicate domain `{domain:.80}`: {self.files[domain]} has it too"
            document.add("duplicate-domain", root.entries["domain"][1], message, "merge the files, or let several files describe a domain")
        elif known["atomic"] != is_atomic:
            message = f"{self.files[domain]} says something else about `atomic` for this domain"
            document.add("atomic-differs", root, message, "say the same in all files of a domain")
        return known
