"""
`tidegate rules schema`: with which editors complete and check rules.yaml.
"""

from __future__ import annotations

import json

import typer

from tidegate.rules.schema import schema as rules_schema


def schema() -> None:
    """
    Print the JSON Schema of rules.yaml.

    Write it to a file, and begin rules.yaml with `# yaml-language-server: $schema=FILE`.

    Exit code 0: always.
    """
    typer.echo(json.dumps(rules_schema(), indent=2))
