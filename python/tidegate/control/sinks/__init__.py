"""
Where events go beside the database: a file, Kafka, ClickHouse. Each has a thread and a queue of its own.

What is down, slow or full costs the others nothing: its queue fills, and what does not fit is dropped and counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.control.sinks.outlet import Outlet, Sink, SinkError

if TYPE_CHECKING:
    from tidegate.service.settings import Settings

__all__ = ["Outlet", "Sink", "SinkError", "outlets"]


def outlets(settings: Settings) -> list[Outlet]:
    """
    All that the settings name, not started yet.

    Args:
        settings: The settings.

    Returns:
        An outlet for each sink.

    Raises:
        ConfigError: Something about a sink is wrong, or what talks to it is not installed.
    """
    # Each is imported only if it is wanted.
    found: list[Outlet] = []
    if settings["events.file"] is not None:
        from tidegate.control.sinks.file import FileSink  # noqa: PLC0415

        found.append(Outlet("file", FileSink(settings["events.file"], settings["events.file_bytes"], settings["events.file_count"])))
    if settings["events.kafka"] is not None:
        from tidegate.control.sinks.kafka import KafkaSink, read_options  # noqa: PLC0415

        options = read_options(settings["events.kafka_config"])
        found.append(Outlet("kafka", KafkaSink(settings["events.kafka"], settings["events.kafka_topic"], options)))
    if settings["events.clickhouse"] is not None:
        from tidegate.control.sinks.clickhouse import ClickHouseSink, read_password  # noqa: PLC0415

        password = read_password(settings["events.clickhouse_password_file"])
        sink = ClickHouseSink(
            settings["events.clickhouse"], settings["events.clickhouse_table"], settings["events.clickhouse_user"], password
        )
        found.append(Outlet("clickhouse", sink))
    return found
