import { variableOf } from '../../schema/option.ts';
import type { Findings } from './findings.ts';

const clients = ['kafkajs', 'platformatic'];
/** What kafkajs would need a package of its own for, which nobody maintains. */
const notByKafkajs = ['snappy', 'lz4'];

/** Whether the client for Kafka that was chosen can do what it is asked for. */
export function checkKafkaClient({ values, invalid, isEmpty, isGiven, add, warn }: Findings): void {
  const servers = 'svc.broker.bootstrap-servers';
  const given = values.get('svc.broker.client') as string | undefined;
  const client = given ?? (isEmpty(servers) ? 'file' : 'kafkajs');
  const isKafka = clients.includes(client);

  if (isKafka && isEmpty(servers) && !invalid.has(servers)) {
    const message = `bootstrapServers is required when client is ${client}`;
    const fix = `List brokers as host:port, or set ${variableOf(servers)} or KAFKA_BROKERS`;
    add(servers, message, fix, isGiven(servers) ? servers : 'svc.broker.client');
  }

  const compression = 'svc.broker.compression';
  const codec = String(values.get(compression));
  if (client === 'kafkajs' && notByKafkajs.includes(codec)) {
    const fix = 'Use gzip or zstd, or svc.broker.client: platformatic';
    add(compression, `kafkajs cannot compress with ${codec}`, fix);
  }

  if (isKafka && values.get('svc.broker.acks') === '0') {
    const message =
      'counts an event as published when it was sent: what Kafka refuses or loses reaches no other tier';
    warn('svc.broker.acks', message, 'Use all, or 1');
  }
  const lease = 'svc.id-generator.lease';
  if (!isKafka && values.get(lease) === 'kafka') {
    const message = `worker ids can be leased in Kafka only where events go to Kafka, and client is ${client}`;
    add(lease, message, 'Use auto or host');
  }
}
