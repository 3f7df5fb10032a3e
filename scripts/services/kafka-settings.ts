import { join } from 'node:path';
import { accessLines } from './kafka-access.ts';

export interface KafkaPorts {
  readonly broker: number;
  readonly controller: number;
  /** SASL over TLS, where the broker is to have it. */
  readonly secure?: number;
}

export interface KafkaSecurity {
  /** PKCS12 file with the broker's key and certificate, opened by `password`. */
  readonly keystore: string;
  readonly password: string;
  /** User name to password: SCRAM users are made when the data folder is formatted, PLAIN ones stand in the settings. */
  readonly users: Readonly<Record<string, string>>;
}

/** Kafka goes by the time of a record, and would delete those of a test that are dated back. */
const keepRecords = 'log.retention.ms=-1';

/** Kafka takes 128 MB at once for it otherwise, which a small heap on a busy machine may not have in one piece. */
const smallCleaner = 'log.cleaner.dedupe.buffer.size=8388608';

/** `server.properties` of one node that is broker and controller in one. */
export function serverProperties(folder: string, ports: KafkaPorts, security?: KafkaSecurity): string {
  const secure = security && ports.secure ? [`SECURE://127.0.0.1:${ports.secure}`] : [];
  const plain = `PLAINTEXT://127.0.0.1:${ports.broker}`;
  const lines = [
    'process.roles=broker,controller',
    'node.id=1',
    `controller.quorum.voters=1@127.0.0.1:${ports.controller}`,
    `listeners=${[plain, ...secure, `CONTROLLER://127.0.0.1:${ports.controller}`].join(',')}`,
    `advertised.listeners=${[plain, ...secure].join(',')}`,
    'controller.listener.names=CONTROLLER',
    'listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL',
    'inter.broker.listener.name=PLAINTEXT',
    `log.dirs=${join(folder, 'data')}`,
    'num.partitions=6',
    // One partition instead of 50 each: these topics are made while the first consumer waits.
    'offsets.topic.num.partitions=1',
    'offsets.topic.replication.factor=1',
    'transaction.state.log.num.partitions=1',
    'transaction.state.log.replication.factor=1',
    'transaction.state.log.min.isr=1',
    keepRecords,
    smallCleaner,
    'group.initial.rebalance.delay.ms=0',
    // A broker that was killed is let in again only when its old session is over: 3 s instead of 9.
    'broker.session.timeout.ms=3000',
    'broker.heartbeat.interval.ms=500',
  ];
  if (security) lines.push(...securityLines(security));
  return `${lines.join('\n')}\n`;
}

export interface ClusterPorts {
  readonly id: number;
  readonly broker: number;
  readonly controller: number;
  /** Second listener, and the port under which clients that come by it are sent on. */
  readonly proxied: number;
  readonly advertised: number;
}

/**
 * `server.properties` of one of several nodes. Brokers talk to each other by the first listener, so that what stands before
 * the second one comes between a broker and its clients only.
 */
export function clusterNodeProperties(folder: string, id: number, nodes: readonly ClusterPorts[]): string {
  const { broker, controller, proxied, advertised } = nodes.find((node) => node.id === id) as ClusterPorts;
  const plain = `PLAINTEXT://127.0.0.1:${broker}`;
  const lines = [
    'process.roles=broker,controller',
    `node.id=${id}`,
    `controller.quorum.voters=${nodes.map((node) => `${node.id}@127.0.0.1:${node.controller}`).join(',')}`,
    `listeners=${plain},PROXIED://127.0.0.1:${proxied},CONTROLLER://127.0.0.1:${controller}`,
    `advertised.listeners=${plain},PROXIED://127.0.0.1:${advertised}`,
    'controller.listener.names=CONTROLLER',
    'listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT',
    'inter.broker.listener.name=PLAINTEXT',
    `log.dirs=${join(folder, 'data')}`,
    'num.partitions=6',
    `default.replication.factor=${nodes.length}`,
    'min.insync.replicas=2',
    'offsets.topic.num.partitions=1',
    `offsets.topic.replication.factor=${nodes.length}`,
    'transaction.state.log.num.partitions=1',
    `transaction.state.log.replication.factor=${nodes.length}`,
    'transaction.state.log.min.isr=2',
    keepRecords,
    smallCleaner,
    'group.initial.rebalance.delay.ms=0',
    // A fail-over within 3 s instead of 9.
    'broker.session.timeout.ms=3000',
    'broker.heartbeat.interval.ms=500',
    'replica.lag.time.max.ms=3000',
    'controller.quorum.election.timeout.ms=500',
    'controller.quorum.fetch.timeout.ms=1000',
  ];
  return `${lines.join('\n')}\n`;
}

function securityLines({ keystore, password, users }: KafkaSecurity): string[] {
  const plainUsers = Object.entries(users).map(([name, secret]) => `user_${name}="${secret}"`);
  return [
    'ssl.keystore.type=PKCS12',
    `ssl.keystore.location=${keystore}`,
    `ssl.keystore.password=${password}`,
    `ssl.key.password=${password}`,
    'listener.name.secure.sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN,OAUTHBEARER',
    'listener.name.secure.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;',
    `listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required ${plainUsers.join(' ')};`,
    ...accessLines,
  ];
}

/** Logging of the broker and of the command line tools: standard output of the tools is for records only. */
export function loggingProperties(level: 'info' | 'error'): string {
  return [
    `rootLogger.level=${level}`,
    'rootLogger.appenderRef.out.ref=out',
    'appender.out.type=Console',
    'appender.out.name=out',
    'appender.out.target=SYSTEM_ERR',
    'appender.out.layout.type=PatternLayout',
    'appender.out.layout.pattern=%d %p %c{1}: %m%n',
    '',
  ].join('\n');
}
