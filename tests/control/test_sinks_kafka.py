"""
Events to Kafka, on the mock cluster that librdkafka brings along.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.control.events import COLUMNS
from tidegate.control.sinks import SinkError
from tidegate.control.sinks import kafka as module
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Eventually
    from tests.control.test_sinks import row
else:
    from test_sinks import row

kafka = pytest.importorskip("confluent_kafka", reason="there is no Kafka client for this system")
MOCK = {"test.mock.num.brokers": 3}
PATIENCE_S = 60
"""How long anything may take, on a machine that is busy."""


@pytest.mark.timeout(240)
def test_events_arrive_once_and_those_of_a_client_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mock cluster lives in the producer; what it holds is read back through the same cluster."""
    # On a busy machine the first batch waits for three brokers to start.
    monkeypatch.setattr(module, "WITHIN_S", PATIENCE_S)
    sink = module.KafkaSink("", "tidegate.events", MOCK)
    made = [row(client=f"client{number % 3}") for number in range(300)]
    sink.write(made[:200])
    sink.write(made[200:])
    cluster = sink._producer.list_topics("tidegate.events", timeout=PATIENCE_S)
    servers = ",".join(f"{broker.host}:{broker.port}" for broker in cluster.brokers.values())
    consumer = kafka.Consumer({"bootstrap.servers": servers, "group.id": "test", "log_level": 0})
    # Partitions are assigned here: to agree on them in a group takes seconds, and longer on a busy machine.
    partitions = cluster.topics["tidegate.events"].partitions
    consumer.assign([kafka.TopicPartition("tidegate.events", number, kafka.OFFSET_BEGINNING) for number in partitions])
    try:
        messages = read(consumer, 300)
    finally:
        consumer.close()
        sink.close()

    rows = [json.loads(message.value()) for message in messages]
    assert sorted(made, key=str) == sorted(rows, key=str)
    assert COLUMNS == tuple(rows[0])
    for client in ("client0", "client1", "client2"):
        assert [one for one in made if one["client_id"] == client] == [one for one in rows if one["client_id"] == client]
        assert 1 == len({message.partition() for message in messages if message.key() == client.encode()})


def read(consumer: Any, count: int) -> list[Any]:  # noqa: ANN401  # the client has no types
    """
    As many messages, or fewer if they do not come.
    """
    messages: list[Any] = []
    for _ in range(PATIENCE_S):
        messages += [message for message in consumer.consume(count - len(messages), timeout=1.0) if message.error() is None]
        if len(messages) == count:
            break
    return messages


def test_a_cluster_that_is_away_is_an_error_and_no_wait(monkeypatch: pytest.MonkeyPatch, eventually: Eventually) -> None:
    """Within the time for a batch; nothing of it is delivered later."""
    monkeypatch.setattr(module, "WITHIN_S", 0.5)
    sink = module.KafkaSink("127.0.0.1:1", "tidegate.events")
    with pytest.raises(SinkError, match="Kafka did not take 2 of 2 events"):
        sink.write([row(), row()])

    # What librdkafka has to say about its connections is counted too, until somebody has listened.
    eventually(lambda: sink._producer.flush(0.1) == 0)
    sink.close()


def test_options_are_read_and_what_is_wrong_is_told_without_them(tmp_path: Path) -> None:
    """They may hold a password."""
    path = tmp_path / "kafka.json"
    path.write_text('{"sasl.password": "hidden', encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        module.read_options(path)
    assert "hidden" not in str(caught.value)
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(ConfigError, match="no JSON object"):
        module.read_options(path)
    path.write_text('{"acks": "all"}', encoding="utf-8")
    assert {"acks": "all"} == module.read_options(path)
    with pytest.raises(ConfigError, match="Kafka cannot be used"):
        module.KafkaSink("127.0.0.1:1", "t", {"no.such.option": 1})
