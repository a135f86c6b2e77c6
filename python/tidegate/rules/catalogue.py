"""
Every kind of mistake, in one table.

A code never changes its meaning. `tidegate rules errors` prints the table, and every code has a file in `testdata/rules/invalid`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Entry:
    """
    One kind of mistake.

    Args:
        about: What it is.
        wrong: An example of it.
        right: The same, mended.
        is_warning: Whether the file is loaded in spite of it.
    """

    about: str
    wrong: str
    right: str
    is_warning: bool = False


def _warning(about: str, wrong: str, right: str) -> Entry:
    return Entry(about, wrong, right, is_warning=True)


CATALOGUE: Final[dict[str, Entry]] = {
    # The files.
    "file-missing": Entry("There is no such file or directory.", "rulse.yaml", "rules.yaml"),
    "file-unreadable": Entry("It cannot be read, or is no file.", "a pipe, or a file without permission", "a readable file"),
    "file-too-large": Entry("It has more than 8 MiB.", "one file of 100 MB", "a directory of files"),
    "empty-directory": Entry("It has no file of rules.", "an empty directory", "a directory with rules.yaml"),
    "too-many-files": Entry("There are more than 1,000 of them.", "one file for each rule", "one file for each team"),
    "not-utf-8": Entry("The bytes are not UTF-8.", "Latin-1", "UTF-8"),
    "control-character": Entry("A character that no file of rules contains.", "a NUL byte", '"\\x00"'),
    "empty-file": Entry("It says nothing.", "", "version: 1"),
    # The document.
    "syntax": Entry("It is neither YAML nor JSON.", "quotas: [1/s", "quotas: [1/s]"),
    "tab-indentation": Entry("A tab indents a line.", "\\tname: a", "  name: a"),
    "several-documents": Entry("One file has several documents.", "---", "two files"),
    "anchor": Entry("A part of the file is named and repeated.", "quotas: *default", "quotas: 100/minute"),
    "merge-key": Entry("The keys of another mapping are taken over.", "<<: *default", "per: client"),
    "tag": Entry("A tag asks for a conversion.", "name: !!str 1", 'name: "1"'),
    "duplicate-key": Entry("A key is given twice.", "{per: ip, per: client}", "{per: [ip, client]}"),
    "key-not-text": Entry("A key is a list or a mapping.", "[a]: 1/s", '"[a]": 1/s'),
    "too-deep": Entry("It is nested more than 32 deep.", "[[[[...", "[a]"),
    "too-many-values": Entry("It has more than 200,000 values.", "one huge file", "a directory of files"),
    "too-many-problems": Entry("There are more than 1,000 problems.", "a broken file", "a file with fewer of them"),
    "mixed-formats": Entry("It mixes rules with the reference service's descriptors.", "version: 1, descriptors: []", "two files"),
    # Keys and values.
    "unknown-key": Entry("Nobody knows this key.", "quota: 1/s", "quotas: 1/s"),
    "missing-key": Entry("A key is missing.", "- per: ip", "- name: login"),
    "missing-value": Entry("A key has no value.", "per:", "per: client"),
    "wrong-type": Entry("A list, a mapping or a single value stands where another is expected.", "match: POST", "match: {method: POST}"),
    "empty-list": Entry("A list has no items.", "quotas: []", "quotas: [1/s]"),
    "empty-text": Entry("A text has no characters.", 'owner: ""', "owner: team-a"),
    "ambiguous-scalar": Entry("YAML readers disagree on what this is.", "tier: on", 'tier: "on"'),
    "number-for-text": Entry("A number stands where a text is expected.", "tier: 404", 'tier: "404"'),
    "not-a-boolean": Entry("Neither `true` nor `false`.", "stop: yes", "stop: true"),
    "not-a-whole-number": Entry("No whole number, or one in quotes.", "priority: 1.5", "priority: 1"),
    "out-of-range": Entry("A number is too small or too large.", "priority: 5000", "priority: 1000"),
    "unknown-choice": Entry("None of the words that are possible.", "mode: shadwo", "mode: shadow"),
    "bad-duration": Entry("No duration.", "leeway: soon", "leeway: 30s"),
    "bad-percentage": Entry("No share between 0% and 100%.", "rollout: 120%", "rollout: 25%"),
    "bad-name": Entry("A name with characters that metrics cannot carry, or too long.", "name: my rule", "name: my_rule"),
    "bad-attribute": Entry("No name of an attribute, or one that cannot be set.", "per: headers", "per: header:x-team"),
    "unknown-version": Entry("A version of the language that this build does not read.", "version: 2", "version: 1"),
    # Several files.
    "include-missing": Entry("An included file does not exist.", "include: comon.yaml", "include: common.yaml"),
    "include-escape": Entry("An included file is outside of the first file's folder.", "include: ../all.yaml", "include: all.yaml"),
    "include-cycle": Entry("Files include each other.", "a includes b, b includes a", "a includes b"),
    "include-section": Entry("An included file has more than rules.", "identity in common.yaml", "identity in rules.yaml"),
    "section-twice": Entry("Two files of a directory have the same section.", "two files with jwt", "one file with jwt"),
    # Who the client is.
    "bad-source": Entry("A source of identity is not exactly one place.", "- {header: a, attribute: b}", "- header: a"),
    "duplicate-attribute": Entry("Two sources set the same attribute.", "- header: x-user, - jwt_claim: sub", "as: login"),
    "bad-network": Entry("No network, or bits behind its prefix.", "cidr: 10.0.0.1/8", "cidr: 10.0.0.0/8"),
    "bad-address": Entry("No address, where one is compared.", "ip: 10.0.0.0/8", "ip: {cidr: 10.0.0.0/8}"),
    "jwt-missing": Entry("A claim is used, and nobody verifies it.", "- jwt_claim: sub", "jwt: {verified_by: upstream}"),
    "jwt-key-source": Entry("Not exactly one key to verify tokens with.", "jwt: {algorithms: HS256}", "secret_env: JWT_SECRET"),
    "jwt-algorithm-none": Entry("Tokens that nobody signed would be believed.", "algorithms: [none]", "algorithms: [HS256]"),
    "jwt-key-mismatch": Entry("The key does not belong to the algorithm.", "{algorithms: HS256, public_key_file: k}", "algorithms: RS256"),
    "jwt-key-unreadable": Entry("The key cannot be read.", "secret_file: missing", "secret_file: /run/secrets/jwt"),
    "jwt-verified-by": Entry(
        "Somebody else verifies, and a key is given too.", "{verified_by: upstream, issuer: a}", "{verified_by: upstream}"
    ),
    # Rules.
    "too-many-rules": Entry("There are more than 100,000 of them.", "one rule for each client", "one rule with overrides"),
    "duplicate-name": Entry("Two rules, or two quotas of a rule, have the same name.", "name: a, name: a", "name: a, name: b"),
    "bad-quota": Entry("A quota cannot be read or cannot be kept.", "100/minuet", "100/minute"),
    "bad-per": Entry("`global` beside others, or an attribute twice.", "per: [global, ip]", "per: ip"),
    "bad-condition": Entry("Not exactly one test, or one that does not belong there.", "{prefix: a, suffix: b}", "{glob: a*b}"),
    "bad-path-pattern": Entry("A path pattern that no path can fit.", "path: /a/**/b", "path: /a/*/b"),
    "bad-regex": Entry("A regular expression that cannot be read.", "regex: a(", 'regex: "a\\\\("'),
    "override-key": Entry(
        "A key does not have the values of `per`.", "per: [client, ip], overrides: {a: 1/s}", "- key: {client: a, ip: b}"
    ),
    "override-client": Entry("A client without the source that names it.", "abc: 1/s", '"api_key:abc": 1/s'),
    "override-twice": Entry("A key is overridden twice.", "- key: a, - key: a", "- key: a"),
    "bad-override": Entry("Not exactly one of `quotas` and `tier`.", "- key: a", "- {key: a, tier: pro}"),
    "unknown-tier": Entry("An override names a tier that the rule does not have.", "abc: {tier: gold}", "tiers: {gold: 9/s}"),
    # Files of the reference service.
    "empty-domain": Entry("A file of descriptors without a domain.", "descriptors: []", "domain: shop"),
    "duplicate-domain": Entry("Two files describe one domain.", "domain: a, domain: a", "domain: a, domain: b"),
    "empty-key": Entry("A descriptor without a key.", "- value: a", "- key: tenant"),
    "duplicate-descriptor": Entry("Two siblings are the same descriptor.", "- key: a_b, - {key: a, value: b}", "- key: a_b"),
    "list-item": Entry("A list of descriptors holds something else.", "descriptors: [tenant]", "descriptors: [{key: tenant}]"),
    "decimal-value": Entry("A decimal number, where none can be.", "value: 1.5", 'value: "1.5"'),
    "bad-unit": Entry("No unit of a limit.", "unit: minuet", "unit: minute"),
    "unlimited-with-unit": Entry("Unlimited, and limited at once.", "{unlimited: true, unit: day}", "unlimited: true"),
    "bad-replaces": Entry("A limit replaces itself, or nobody.", "{name: a, replaces: [{name: a}]}", "replaces: [{name: b}]"),
    "nothing-to-share": Entry("`share_threshold` without a `*`.", "{value: a, share_threshold: true}", "value: a*"),
    "bad-metadata": Entry("Metadata that no answer can carry.", "metadata: {a: .inf}", "metadata: {a: 1}"),
    "atomic-differs": Entry("Two files of one domain disagree on `atomic`.", "{atomic: true}, {atomic: false}", "{atomic: true}"),
    "unknown-anchor": Entry("An alias without an anchor above it.", "rate_limit: *a", "rate_limit: &a {...}"),
    # Warnings.
    "no-rules": _warning("There is no rule at all.", "rules: []", "rules: [...]"),
    "no-effect": _warning("A key that changes nothing.", "{mode: shadow, rollout: 5%}", "rollout: 5%"),
    "jwt-secret-short": _warning("A secret that can be guessed.", "4 bytes", "32 bytes or more"),
    "client-without-identity": _warning("`client` is matched, and only callers can set it.", "match: {client: a}", "identity: [...]"),
    "suspicious-attribute": _warning("An attribute that looks like a misspelt one.", "match: {methd: GET}", "match: {method: GET}"),
    "capture-missing": _warning("`per` names a capture that the rule's path does not have.", "{path: /a/*, per: id}", "path: /a/{id}"),
    "never-matches": _warning("A condition that no request fulfils.", "host: example.com:443", "host: example.com"),
    "unreachable-rule": _warning("An earlier rule always stops first.", "{stop: true}, then others", "priority: 1"),
    "tier-unreachable": _warning("A tier that no request of the rule can have.", "match: {tier: a}, tiers: {b: 1/s}", "tiers: {a: 1/s}"),
    "quota-never-binds": _warning("A quota that never matters beside another.", "[10/second, 5/minute]", "[1/second, 5/minute]"),
    "log-limit-huge": _warning("A log of every request with a large limit.", "9999/hour sliding_window_log", "9999/hour"),
    "cost-above-limit": _warning("A fixed cost that never fits.", "{cost: 10, quotas: 5/s}", "quotas: 50/s"),
    "misplaced-key": _warning("A key of the reference service that has no meaning here.", "{key: a, unit: day}", "rate_limit: {unit: day}"),
    "repeated-key": _warning("A key twice in a file of descriptors: the last counts.", "{key: a, key: b}", "{key: b}"),
}
