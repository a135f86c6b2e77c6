"""
The engine as a service: gRPC for Envoy, checks and forward-auth over HTTP, metrics.

Requests are answered in Rust; Python sets up and supervises.

| module | holds |
| --- | --- |
| `table` | every setting, once |
| `kinds`, `places` | what a setting can be |
| `sources` | settings from a file, the environment and flags |
| `settings` | all of them together, checked |
| `native` | the same as Rust takes them |
| `describe` | the same as people and editors read them |
| `service` | `Service`: starts, reloads, drains, stops |
| `block` | what begins and ends with a block |
| `run` | a service in the foreground, led by signals |
| `watch` | files that are read again when they change |
| `log`, `notify`, `open_files` | what it logs, what it tells a supervisor, how many files it may open |
"""

from tidegate.service.problem import SettingProblem, SettingsError
from tidegate.service.service import Service
from tidegate.service.settings import Settings, load

__all__ = ["Service", "SettingProblem", "Settings", "SettingsError", "load"]
