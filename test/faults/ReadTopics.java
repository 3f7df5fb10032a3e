import java.time.Duration;
import java.util.*;
import java.util.regex.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Prints one line for each record that the topics hold now: topic, partition, time, event id, key and number of the call. */
public class ReadTopics {
  // In a dead letter the event can be a text: its quotes are escaped there.
  private static final Pattern CALL = Pattern.compile("\\\\?\"call\\\\?\":\\\\?\"([^\"\\\\]+)/(\\d+)\\\\?\"");

  public static void main(String[] args) {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", args[0]);
    settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
    settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
    settings.put("enable.auto.commit", "false");
    StringBuilder out = new StringBuilder();
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
      List<TopicPartition> partitions = new ArrayList<>();
      for (String topic : Arrays.copyOfRange(args, 1, args.length))
        consumer.partitionsFor(topic).forEach(p -> partitions.add(new TopicPartition(topic, p.partition())));
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
      long giveUp = System.currentTimeMillis() + 60_000;
      while (partitions.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
        if (System.currentTimeMillis() > giveUp) throw new IllegalStateException("not all records could be read");
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
          Header id = record.headers().lastHeader("eventId");
          Matcher call = CALL.matcher(new String(record.value()));
          boolean found = call.find();
          out.append(record.topic()).append('\t').append(record.partition()).append('\t').append(record.timestamp())
              .append('\t').append(id == null ? "-" : new String(id.value())).append('\t')
              .append(found ? call.group(1) : "-").append('\t').append(found ? call.group(2) : "-").append('\n');
        }
        System.out.print(out);
        out.setLength(0);
      }
    }
    System.out.println("end");
  }
}
