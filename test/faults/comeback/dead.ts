import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startKafkaCluster } from '../../../scripts/services/kafka-cluster.ts';
import { startLostNetwork } from '../../support/lost-network.ts';
import { createTopic } from '../cluster-admin.ts';
import { startMeasuredApp } from './measured-app.ts';

// How soon is svc back after an outage that leaves all its connections dead without a word, as where a network or the
// machines were lost?
//   node test/faults/comeback/dead.ts --client kafkajs,platformatic --outage 4,15,60 [--verbose]

const { values } = parseArgs({
  options: {
    client: { type: 'string', default: 'kafkajs,platformatic' },
    outage: { type: 'string', default: '4,15' },
    verbose: { type: 'boolean', default: false },
  },
});

const limitMs = 60_000;

/** Milliseconds to the first event that is acknowledged, of the backup or a new one, and to the first new one. */
async function measure(client: string, outageMs: number) {
  const topic = `dead-${client}-${Date.now()}`;
  await createTopic(cluster.nodes, topic);
  const app = startMeasuredApp(client, network.addresses, topic);
  await app.until(() => app.publishedAt(0), limitMs);
  await sleep(2_000);
  network.turn(true);
  await sleep(outageMs);
  network.turn(false);
  const backAtMs = Date.now();
  await app.until(() => app.publishedAt(backAtMs), limitMs);
  for (const { at, what, text } of app.said)
    if (values.verbose && what !== 'connections')
      console.log(`  ${at - backAtMs}: ${what} ${text.slice(0, 160)}`);
  await app.end();
  const published = app.publishedAt(backAtMs);
  const closed = app.said.find(({ at, text }) => at >= backAtMs && text.includes('breaker is CLOSED'))?.at;
  const firstMs = Math.min(published ?? Number.NaN, closed ?? Number.POSITIVE_INFINITY) - backAtMs;
  return { firstMs, newMs: published && published - backAtMs };
}

const cluster = await startKafkaCluster({ log: console.error });
const network = await startLostNetwork(
  cluster.nodes.map(({ proxied }) => ({ to: proxied.address, port: proxied.advertisedPort })),
);
try {
  for (const seconds of values.outage.split(',').map(Number))
    for (const client of values.client.split(','))
      console.log(JSON.stringify({ client, seconds, ...(await measure(client, seconds * 1_000)) }));
} finally {
  await cluster.stop();
}
process.exit();
