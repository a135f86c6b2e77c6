"""
The canonical form of a rule file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate import rules
from tidegate.errors import RuleError
from tidegate.rules.fmt import format_text

VALID = Path(__file__).parent.parent / "testdata" / "rules" / "valid"
FILES = sorted(path for path in VALID.rglob("*") if path.suffix in {".yaml", ".yml", ".json"} and not path.name.startswith("."))

MESSY = """
# head of the file

rules:


  # about a
  - quotas:  # all of them
      - 10/second    # fast


      - "200/minute"
      # slow: 5/day
    name: 'a'         # the name
    # about per
    per: [ client,ip ]
    description: |   # why
      two


        lines
    match: {path: [/a,  # first
        /b], method: "POST", host: '*.example.org', x: {regex: '\\d+"', ignore_case: true}}
    # end of a

  # about b
  - per: global
    # name of b
    name: b
    quotas: {"period": 60, limit: 5}
    tiers: {pro: 1/s, "on": "5/s", a_tier_with_a_long_name: 5000/minute burst 500, another_long_name: 90000/hour}
  - {quotas: 1/s,
     per: ip, name: c}
version: 1    # the language
# the end
"""

TIDY = """\
# head of the file

version: 1    # the language

rules:
  # about a
  - name: a           # the name
    description: |   # why
      two


        lines
    match:
      path:
        - /a            # first
        - /b
      method: POST
      host: "*.example.org"
      x: {regex: '\\d+"', ignore_case: true}
    # end of a
    # about per
    per: [client, ip]
    quotas:  # all of them
      - 10/second    # fast

      - 200/minute
      # slow: 5/day

  # about b
  # name of b
  - name: b
    per: global
    quotas: {limit: 5, period: 60}
    tiers:
      pro: 1/s
      "on": 5/s
      a_tier_with_a_long_name: 5000/minute burst 500
      another_long_name: 90000/hour
  - {name: c, per: ip, quotas: 1/s}
# the end
"""


def test_order_indentation_quotes_and_comments() -> None:
    """Keys have one order, comments follow what they are about, and nothing is lost."""
    assert TIDY == format_text(MESSY)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_formatting_twice_is_formatting_once(path: Path) -> None:
    """It ends somewhere."""
    once = format_text(path.read_text(encoding="utf-8"), path.name)

    assert once == format_text(once, path.name)


@pytest.mark.parametrize("path", [path for path in FILES if path.parent == VALID], ids=lambda path: path.name)
def test_formatting_changes_no_rule(path: Path) -> None:
    """The engine gets the same document."""
    text = path.read_text(encoding="utf-8")

    assert rules.load(path, text=text).ir == rules.load(path, text=format_text(text, path.name)).ir


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a: 'b'", "a: b", id="needless-quotes"),
        pytest.param("a: 'on'", 'a: "on"', id="switch"),
        pytest.param("a: '404'", 'a: "404"', id="number"),
        pytest.param("a: 404", "a: 404", id="plain-number-stays"),
        pytest.param("a: yes", "a: yes", id="plain-switch-stays"),
        pytest.param("a: 'b: c'", 'a: "b: c"', id="colon"),
        pytest.param("a: 'b #c'", 'a: "b #c"', id="hash"),
        pytest.param("a: ''", 'a: ""', id="empty"),
        pytest.param("a: ' b'", 'a: " b"', id="blank"),
        pytest.param("a: '*.org'", 'a: "*.org"', id="star"),
        pytest.param("a: '\\d'", "a: '\\d'", id="backslash"),
        pytest.param('a: "x\\ty"', 'a: "x\\ty"', id="tab"),
        pytest.param('a: "\\u2028"', 'a: "\\u2028"', id="separator"),
        pytest.param("a:", "a:", id="nothing"),
        pytest.param("a: ~", "a: ~", id="null"),
        pytest.param("a: []\nb: {}", "a: []\nb: {}", id="empty-collections"),
        pytest.param("a:\n- b\n-   c", "a:\n  - b\n  - c", id="list"),
        pytest.param("a:\n    - - b\n      - c", "a:\n  - - b\n    - c", id="list-in-list"),
        pytest.param("a: b\n   c", "a: b c", id="folded"),
        pytest.param("a: >\n  b\n  c\n", "a: |\n  b c", id="folded-block"),
        pytest.param("a: |-\n  b\n  c\n", "a: |-\n  b\n  c", id="block"),
        pytest.param("- a # x\n- b", "- a # x\n- b", id="comment-of-an-item"),
        pytest.param("a: [b, # x\n c]", "a:\n  - b # x\n  - c", id="comment-in-brackets"),
        pytest.param("a:\r\n  b: c\r\n", "a:\n  b: c", id="crlf"),
    ],
)
def test_values(before: str, after: str) -> None:
    """What needs quotes has double ones, and single ones where they save backslashes."""
    assert after.strip() == format_text(before).strip().replace("  # x", " # x")


def test_what_is_no_document_is_refused() -> None:
    """With the same problems as `load`."""
    with pytest.raises(RuleError) as caught:
        format_text("a: [")

    assert ["syntax"] == [problem.code for problem in caught.value.problems]
