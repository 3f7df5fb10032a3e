import java.io.*;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads topics with Kafka's own consumer, one after the other, in one JVM for all reads of a test run.
 * A line of the input: brokers, topic, how many records, milliseconds to wait for the next one; between tabs.
 * For each, a line of the output a record: partition, offset, timestamp, key, value, then name and value of each header; bytes
 * in base64, "-" for none. At last "end", or "failed" and why.
 */
public class RecordReader {
  public static void main(String[] args) throws IOException {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)));
    for (String line; (line = in.readLine()) != null; out.flush()) {
      String[] asked = line.split("\t");
      try {
        read(asked[0], asked[1], Integer.parseInt(asked[2]), Long.parseLong(asked[3]), out);
        out.println("end");
      } catch (RuntimeException failure) {
        out.println("failed\t" + String.valueOf(failure).replaceAll("\\s+", " "));
      }
    }
  }

  private static void read(String brokers, String topic, int count, long timeoutMs, PrintStream out) {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", brokers);
    settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
    settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
    settings.put("enable.auto.commit", "false");
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
      List<TopicPartition> partitions = new ArrayList<>();
      consumer.partitionsFor(topic).forEach(p -> partitions.add(new TopicPartition(topic, p.partition())));
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      int found = 0;
      while (found < count) {
        ConsumerRecords<byte[], byte[]> some = consumer.poll(Duration.ofMillis(timeoutMs));
        if (some.isEmpty()) throw new IllegalStateException("no record for " + timeoutMs + " ms");
        for (ConsumerRecord<byte[], byte[]> record : some) if (found++ < count) print(record, out);
      }
    }
  }

  private static void print(ConsumerRecord<byte[], byte[]> record, PrintStream out) {
    StringBuilder line = new StringBuilder();
    line.append(record.partition()).append('\t').append(record.offset()).append('\t').append(record.timestamp());
    line.append('\t').append(text(record.key())).append('\t').append(text(record.value()));
    for (Header header : record.headers())
      line.append('\t').append(text(header.key().getBytes())).append('\t').append(text(header.value()));
    out.println(line);
  }

  private static String text(byte[] bytes) {
    return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
  }
}
