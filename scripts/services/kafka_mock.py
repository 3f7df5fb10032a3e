"""librdkafka's mock cluster, driven by lines on standard input; each is answered by one line.

Usage: kafka_mock.py <brokers>. Ends with its input. Errors are numbers of the Kafka protocol.
"""
import ctypes, glob, os, sys
import confluent_kafka
from confluent_kafka import Consumer, TopicPartition

folder = os.path.dirname(os.path.dirname(confluent_kafka.__file__))
lib = ctypes.CDLL(glob.glob(os.path.join(folder, "confluent_kafka.libs", "librdkafka-*"))[0])
pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int


def declare(name, result, *arguments):
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments
    return function


new_conf = declare("rd_kafka_conf_new", pointer)
new_client = declare("rd_kafka_new", pointer, number, pointer, text, ctypes.c_size_t)
new_cluster = declare("rd_kafka_mock_cluster_new", pointer, pointer, number)
bootstraps = declare("rd_kafka_mock_cluster_bootstraps", text, pointer)
create_topic = declare("rd_kafka_mock_topic_create", number, pointer, text, number, number)
topic_error = declare("rd_kafka_mock_topic_set_error", None, pointer, text, number)
set_leader = declare("rd_kafka_mock_partition_set_leader", number, pointer, text, ctypes.c_int32, ctypes.c_int32)
set_rtt = declare("rd_kafka_mock_broker_set_rtt", number, pointer, ctypes.c_int32, number)
push = declare(
    "rd_kafka_mock_push_request_errors_array", None, pointer, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(number)
)
clear = declare("rd_kafka_mock_clear_request_errors", None, pointer, ctypes.c_int16)
set_api = declare(
    "rd_kafka_mock_set_apiversion", number, pointer, ctypes.c_int16, ctypes.c_int16, ctypes.c_int16
)

brokers = int(sys.argv[1])
problem = ctypes.create_string_buffer(512)
client = new_client(0, new_conf(), problem, 512)
cluster = new_cluster(client, brokers)
address = bootstraps(cluster).decode()
try:
    declare("rd_kafka_mock_set_controller_id", number, pointer, ctypes.c_int32)(cluster, 1)
except AttributeError:
    pass
PRODUCE = 0


def read(topics):
    """All records of the topics, one line each: topic, partition, time, event id, value."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "read", "enable.partition.eof": True})
    known = consumer.list_topics(timeout=10).topics
    places = [TopicPartition(t, p, 0) for t in topics for p in known[t].partitions]
    consumer.assign(places)
    left = len(places)
    while left > 0:
        record = consumer.poll(10)
        if record is None:
            raise RuntimeError("no answer")
        if record.error():
            left -= 1
            continue
        ids = [value.decode() for name, value in record.headers() or [] if name == "eventId"]
        value = record.value().decode().replace("\t", " ").replace("\n", " ")
        row = [record.topic(), record.partition(), record.timestamp()[1], (ids or ["-"])[0], value]
        print("\t".join(map(str, row)))
    consumer.close()


def run(line):
    word, *rest = line.split()
    if word == "topic":
        return create_topic(cluster, rest[0].encode(), int(rest[1]), brokers)
    if word == "topicerr":
        return topic_error(cluster, rest[0].encode(), int(rest[1]))
    if word == "leader":
        return set_leader(cluster, rest[0].encode(), int(rest[1]), int(rest[2]))
    if word == "rtt":
        return max(set_rtt(cluster, node, int(rest[0])) for node in range(1, brokers + 1))
    if word == "push":
        errors = (number * int(rest[1]))(*[int(rest[0])] * int(rest[1]))
        return push(cluster, PRODUCE, int(rest[1]), errors)
    if word == "clear":
        return clear(cluster, PRODUCE)
    if word == "api":
        return set_api(cluster, *map(int, rest))
    if word == "read":
        return read(rest)
    raise ValueError(f"no such word: {word}")


print(address, flush=True)
for line in sys.stdin:
    try:
        print(f"done {run(line) or 0}", flush=True)
    except Exception as error:
        print(f"failed {error!r}", flush=True)
