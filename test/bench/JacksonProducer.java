import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.*;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's own producer with its defaults, and Jackson: the envelope, key and headers of hand-written-event.ts. */
public class JacksonProducer {
  record Customer(String id, String name, String email, List<String> phones) {}
  record Address(String street, String city, String zip, String country) {}
  record Item(String sku, String title, int quantity, double price) {}
  record Order(
      String orderId, Customer customer, Address address, List<Item> items, double total, String currency, String note,
      String createdAt, List<Boolean> flags) {}

  record Source(String serviceName, String serviceVersion, String hostname) {}
  record Actor(String userId, String sessionId) {}
  record Trace(String traceId, String spanId, String parentSpanId) {}
  record Metadata(
      Source source, Actor actor, Trace trace, String correlationId, String clientIp, Map<String, String> tags) {}
  record Envelope(
      String eventId, String eventType, String occurredAt, String publishedAt, String severity, Metadata metadata,
      Order payload) {}

  /** As many without acknowledgement as in the other cases. */
  private static final int WINDOW = 4096;
  private static final int TIMED_SHARE = 16;
  private static final Source SOURCE = new Source("orders", "1.4.0", "host-1");

  private static long lastId = 281_474_976_710_656L;

  public static void main(String[] args) throws Exception {
    String topic = args[1];
    ObjectMapper mapper = new ObjectMapper();
    Order order = mapper.readValue(args[2], Order.class);
    Properties settings = new Properties();
    settings.put("bootstrap.servers", args[0]);
    settings.put("acks", "all");
    OperatingSystemMXBean system = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
    BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
    try (Producer<String, byte[]> producer =
        new KafkaProducer<>(settings, new StringSerializer(), new ByteArraySerializer())) {
      producer.partitionsFor(topic);
      System.out.println("ready");
      for (String line = orders.readLine(); line != null; line = orders.readLine()) {
        long cpu = system.getProcessCpuTime();
        long started = System.nanoTime();
        List<Double> latencies = run(producer, mapper, topic, order, Integer.parseInt(line.trim()));
        double seconds = (System.nanoTime() - started) / 1e9;
        double cpuUs = (system.getProcessCpuTime() - cpu) / 1e3;
        System.out.println(mapper.writeValueAsString(
            Map.of("seconds", seconds, "cpuUs", cpuUs, "latenciesMs", latencies)));
      }
    }
  }

  private static List<Double> run(
      Producer<String, byte[]> producer, ObjectMapper mapper, String topic, Order order, int events) throws Exception {
    Semaphore free = new Semaphore(WINDOW);
    List<Double> latencies = Collections.synchronizedList(new ArrayList<>());
    for (int left = events; left > 0; left--) {
      free.acquire();
      boolean isTimed = left % TIMED_SHARE == 0;
      long began = isTimed ? System.nanoTime() : 0;
      producer.send(record(mapper, topic, order), (metadata, error) -> {
        if (error != null) {
          error.printStackTrace();
          System.exit(1);
        }
        if (isTimed) latencies.add((System.nanoTime() - began) / 1e6);
        free.release();
      });
    }
    free.acquire(WINDOW);
    return latencies;
  }

  private static ProducerRecord<String, byte[]> record(ObjectMapper mapper, String topic, Order order) throws Exception {
    String eventId = Long.toString(lastId++);
    String now = Instant.now().truncatedTo(ChronoUnit.MILLIS).toString();
    Trace trace = new Trace("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", null);
    Metadata metadata = new Metadata(SOURCE, new Actor(null, null), trace, null, null, Map.of());
    Envelope envelope = new Envelope(eventId, "ORDER_CREATED", now, now, "INFO", metadata, order);
    ProducerRecord<String, byte[]> record = new ProducerRecord<>(topic, eventId, mapper.writeValueAsBytes(envelope));
    record.headers()
        .add("eventId", eventId.getBytes(StandardCharsets.UTF_8))
        .add("eventType", "ORDER_CREATED".getBytes(StandardCharsets.UTF_8))
        .add("content-type", "application/json".getBytes(StandardCharsets.UTF_8))
        .add("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".getBytes(StandardCharsets.UTF_8));
    return record;
  }
}
