"""
The JSON Schema: it accepts what the reader accepts, and knows every key.
"""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest

from tidegate.rules import fields
from tidegate.rules.compose import compose
from tidegate.rules.document import Document
from tidegate.rules.node import Node, Scalar, Sequence
from tidegate.rules.problem import Report
from tidegate.rules.schema import schema

ROOT = Path(__file__).parent.parent / "testdata" / "rules"
FILES = sorted(path for path in (ROOT / "valid").rglob("*") if path.suffix in {".yaml", ".yml", ".json"} and not path.name.startswith("."))
# Mistakes that show in the shape of a file: an editor underlines them at once.
SHAPES = [
    *("bad-condition", "bad-name", "bad-override", "bad-percentage", "bad-source", "empty-text", "missing-key", "missing-value"),
    *("not-a-boolean", "not-a-whole-number", "number-for-text", "out-of-range", "unknown-choice", "unknown-key", "unknown-version"),
    *("wrong-type", "unknown-key-in-condition", "unknown-key-in-quota", "unknown-key-in-identity", "jwt-key-source", "jwt-key-source-none"),
]


def data(node: Node) -> object:
    """
    A node as editors see it, by the core schema of YAML 1.2.
    """
    if isinstance(node, Sequence):
        return [data(item) for item in node.items]
    if not isinstance(node, Scalar):
        return {name: data(value) for name, (_, value) in node.entries.items()}
    if node.style or not re.fullmatch(r"true|false|null|~||[-+]?[0-9]+|[-+]?[0-9]*\.[0-9]+|[0-9]+e[0-9]+", node.text):
        return node.text
    if node.text in {"", "~", "null"}:
        return None
    return (
        node.text == "true"
        if node.text in {"true", "false"}
        else int(node.text)
        if re.fullmatch(r"[-+]?[0-9]+", node.text)
        else float(node.text)
    )


def read(path: Path) -> object:
    """
    A file as an editor sees it.
    """
    document = Document(path.name, path, path.read_text(encoding="utf-8"), Report())
    compose(document)
    assert document.root is not None
    return data(document.root)


def test_it_is_a_schema() -> None:
    """Of the draft that it names."""
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_accepts_every_valid_file(path: Path) -> None:
    """An editor underlines nothing that loads."""
    jsonschema.Draft202012Validator(schema()).validate(read(path))


@pytest.mark.parametrize("name", SHAPES)
def test_it_refuses_mistakes_of_shape(name: str) -> None:
    """What can be seen without knowing the other rules."""
    assert not jsonschema.Draft202012Validator(schema()).is_valid(read(ROOT / "invalid" / f"{name}.yaml"))


def test_every_key_is_described() -> None:
    """Editors show a sentence and an example for each."""
    tables = (fields.FILE, fields.SOURCE, fields.IP, fields.JWT, fields.RULE, fields.COST, fields.OVERRIDE, fields.CONDITION, fields.QUOTA)

    assert all(field.about.endswith(".") for table in tables for field in table.values())
    assert all(field.name == name for table in tables for name, field in table.items())


@pytest.mark.parametrize("table", ["FILE", "SOURCE", "IP", "JWT", "RULE", "COST", "CONDITION", "QUOTA"])
def test_examples_fit_their_shapes(table: str) -> None:
    """An example that the schema refuses would teach the mistake."""
    definitions = schema()["$defs"]
    for field in getattr(fields, table).values():
        validator = jsonschema.Draft202012Validator({**field.shape, "$defs": definitions})
        for example in field.examples:
            assert validator.is_valid(example), (field.name, example)
