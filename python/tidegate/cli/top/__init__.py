"""
The command `tidegate top`: a live view of a running service.

| module | holds |
| --- | --- |
| `command` | the command |
| `page` | the page of metrics, read |
| `reading` | what a service says about itself at one moment |
| `picture` | two readings become rates |
| `draw` | a picture on a terminal, or as plain text |
"""

from tidegate.cli.top.command import top

__all__ = ["top"]
