"""
Events to Kafka, as JSON. The key of a message is the client, so that what happened to one client stays in order.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tidegate.control.sinks.outlet import SinkError
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tidegate.control.sinks.outlet import Row

WITHIN_S: Final = 10.0
"""How long a batch may take."""


class KafkaSink:
    """
    Writes to a topic, each event once as long as the process lives: the producer is idempotent.

    Args:
        servers: Where it is, such as `broker1:9092,broker2:9092`.
        topic: The topic.
        options: More options of librdkafka.

    Raises:
        ConfigError: confluent-kafka is not installed, or an option is wrong.
    """

    def __init__(self, servers: str, topic: str, options: Mapping[str, Any] | None = None) -> None:
        try:
            from confluent_kafka import KafkaException, Producer  # noqa: PLC0415  # an extra
        except ModuleNotFoundError:
            raise ConfigError("Kafka needs confluent-kafka, which is not installed\nhint: pip install 'tidegate[kafka]'") from None
        self._topic = topic
        usual = {
            "client.id": "tidegate",
            "enable.idempotence": True,
            "linger.ms": 50,
            "compression.type": "lz4",
            # Not longer than a batch, so that what is given up here is not delivered later as well.
            "message.timeout.ms": int(WITHIN_S * 1000),
            "queue.buffering.max.messages": 100_000,
            # What it would log is told by the outlet.
            "log_level": 0,
        }
        try:
            self._producer = Producer({**usual, **(options or {}), "bootstrap.servers": servers})
        except KafkaException as error:
            raise ConfigError(f"Kafka cannot be used: {error.args[0].str()}\nhint: see events.kafka and events.kafka_config") from None
        self._error: type[Exception] = KafkaException

    def write(self, rows: Sequence[Row]) -> None:
        """See `Sink`."""
        failed: list[str] = []

        def delivered(error: Any, _message: object) -> None:  # noqa: ANN401  # a KafkaError, or `None`
            if error is not None:
                failed.append(error.str())

        try:
            for row in rows:
                value = json.dumps(row, ensure_ascii=False).encode()
                self._producer.produce(self._topic, value=value, key=row["client_id"].encode(), on_delivery=delivered)
                self._producer.poll(0)
        except (self._error, BufferError) as error:
            self._give_up()
            raise SinkError(f"Kafka takes no events: {error}") from error
        is_late = self._producer.flush(WITHIN_S + 1) > 0
        # What is given up is told as failed, like what Kafka refused: only what is not even told then is counted here.
        left = self._give_up() if is_late else 0
        if failed or left:
            why = "it did not answer in time" if is_late else failed[0]
            raise SinkError(f"Kafka did not take {left + len(failed)} of {len(rows)} events: {why}")

    def _give_up(self) -> int:
        self._producer.purge()
        left: int = self._producer.flush(1)
        return left

    def close(self) -> None:
        """See `Sink`."""
        self._producer.flush(1)


def read_options(path: Path | None) -> dict[str, Any]:
    """
    Reads more options of librdkafka.

    Args:
        path: A JSON file; `None` is none.

    Returns:
        The options.

    Raises:
        ConfigError: The file cannot be read, or is no object.
    """
    if path is None:
        return {}
    try:
        options = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        # The text of the file may hold a password.
        why = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise ConfigError(f"events.kafka_config cannot be read: {why}\nhint: write a JSON object of options of librdkafka") from None
    if not isinstance(options, dict):
        raise ConfigError('events.kafka_config is no JSON object\nhint: write {"security.protocol": "ssl"} or the like')
    return options
