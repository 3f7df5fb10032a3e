"""Reads records of Kafka as lines of JSON; answers each with the attributes and the data that the SDK finds in it."""
import base64
import json
import sys

from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka
from cloudevents.core.formats.json import JSONFormat

for line in sys.stdin:
    record = json.loads(line)
    headers = {name: value.encode() for name, value in record["headers"].items()}
    message = KafkaMessage(headers=headers, key=record["key"], value=base64.b64decode(record["value"]))
    event = from_kafka(message, JSONFormat())
    answer = {"attributes": event.get_attributes(), "data": event.get_data()}
    print(json.dumps(answer, default=lambda value: value.isoformat()), flush=True)
