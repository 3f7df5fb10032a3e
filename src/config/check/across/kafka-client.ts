import { variableOf } from '../../schema/option.ts';
import type { CheckInput, CheckResult } from '../check-input.ts';
import type { Problem } from '../problem.ts';

const clients = ['kafkajs', 'platformatic'];
/** What kafkajs would need a package of its own for, which nobody maintains. */
const notByKafkajs = ['snappy', 'lz4'];

/** Whether the client for Kafka that was chosen can do what it is asked for. */
export function checkKafkaClient({ values, settings, invalid }: CheckInput): CheckResult {
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  const where = (name: string) => settings.get(name)?.where();
  const servers = 'svc.broker.bootstrap-servers';
  const hasServers = ((values.get(servers) as readonly string[] | undefined) ?? []).length > 0;
  const given = values.get('svc.broker.client') as string | undefined;
  const client = given ?? (hasServers ? 'kafkajs' : 'file');

  if (clients.includes(client) && !hasServers && !invalid.has(servers)) {
    problems.push({
      name: servers,
      message: `bootstrapServers is required when client is ${client}`,
      where: where(servers) ?? where('svc.broker.client'),
      fix: `List brokers as host:port, or set ${variableOf(servers)} or KAFKA_BROKERS`,
    });
  }

  const compression = 'svc.broker.compression';
  const codec = String(values.get(compression));
  if (client === 'kafkajs' && notByKafkajs.includes(codec)) {
    problems.push({
      name: compression,
      message: `kafkajs cannot compress with ${codec}`,
      where: where(compression),
      fix: 'Use gzip or zstd, or svc.broker.client: platformatic',
    });
  }

  if (clients.includes(client) && values.get('svc.broker.acks') === '0') {
    const name = 'svc.broker.acks';
    const message =
      'counts an event as published when it was sent: what Kafka refuses or loses reaches no other tier';
    warnings.push({ name, message, where: where(name), fix: 'Use all, or 1' });
  }
  const lease = 'svc.id-generator.lease';
  if (!clients.includes(client) && values.get(lease) === 'kafka') {
    problems.push({
      name: lease,
      message: `worker ids can be leased in Kafka only where events go to Kafka, and client is ${client}`,
      where: where(lease),
      fix: 'Use auto or host',
    });
  }
  return { problems, warnings };
}
