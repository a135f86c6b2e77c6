"""
The page of metrics in the text format of Prometheus, read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})? (\S+)')
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")

Labels = tuple[tuple[str, str], ...]


class Page:
    """
    Samples by name and labels.

    Args:
        text: The page. Lines that are no samples are passed over.
    """

    def __init__(self, text: str) -> None:
        self._samples: dict[str, dict[Labels, float]] = defaultdict(dict)
        for line in text.splitlines():
            if found := _SAMPLE.fullmatch(line):
                name, labels, value = found.groups()
                self._samples[name][_labels(labels or "")] = float(value)

    def __len__(self) -> int:
        return sum(map(len, self._samples.values()))

    def __contains__(self, name: str) -> bool:
        return name in self._samples

    def samples(self, name: str, **labels: str) -> Iterator[tuple[Mapping[str, str], float]]:
        """
        Samples of a metric.

        Args:
            name: The metric.
            **labels: What their labels have to be.

        Yields:
            Labels and value.
        """
        for found, value in self._samples.get(name, {}).items():
            named = dict(found)
            if labels.items() <= named.items():
                yield named, value

    def total(self, name: str, **labels: str) -> float:
        """
        The sum of samples of a metric.

        Args:
            name: The metric.
            **labels: What their labels have to be.
        """
        return sum(value for _, value in self.samples(name, **labels))

    def values(self, name: str, label: str) -> list[str]:
        """
        The values of a label, each once, in order.

        Args:
            name: The metric.
            label: The label.
        """
        return list(dict.fromkeys(labels[label] for labels, _ in self.samples(name) if label in labels))


def _labels(text: str) -> Labels:
    unescaped = {"n": "\n"}
    return tuple((name, _ESCAPE.sub(lambda found: unescaped.get(found[1], found[1]), value)) for name, value in _LABEL.findall(text))
