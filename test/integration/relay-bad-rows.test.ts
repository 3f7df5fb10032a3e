import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { resolve } from 'node:path';
import pg from 'pg';
import { shardOf } from '../../src/outbox/outbox-row.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { hostEnvironment } from '../e2e/support/run-app.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { until as untilSo } from '../support/until.ts';

const main = resolve(import.meta.dirname, '../../src/cli/main.ts');
const table = 'svc_outbox_events';
/** More than the listeners of one kind that Node takes for usual. */
const topicCount = 16;
const goodHeaders = '{"content-type":"application/json"}';

/** What a row can be that no svc has written, and what its `last_error` says then. */
const faults: readonly (readonly [name: string, row: { headers?: string; topic?: string }, says: RegExp])[] =
  [
    ['number', { headers: '{"a":1}' }, /header/],
    ['null', { headers: '{"a":null}' }, /header/],
    ['object', { headers: '{"a":{"b":"c"}}' }, /header/],
    ['array', { headers: '{"a":[]}' }, /header/],
    ['text with a length', { headers: '{"a":{"length":0}}' }, /header/],
    ['list', { headers: '["a"]' }, /headers/],
    ['no object', { headers: 'null' }, /headers/],
    ['no JSON', { headers: 'a=b' }, /headers/],
    ['topic', { topic: 'no topic\n\u001b[31m' }, /topic/],
    ['long topic', { topic: 't'.repeat(5_000) }, /topic/],
  ];

interface Relaying {
  readonly child: ChildProcess;
  readonly ended: Promise<unknown>;
  stderr(): string;
}

for (const client of ['kafkajs', 'platformatic']) {
  requiring(
    ['postgres', 'kafka'],
    `two relays, and rows that cannot be records, through ${client}`,
    function () {
      this.timeout(120_000);
      const topics = Array.from(
        { length: topicCount },
        (_, at) => `bad-rows.${client}.${at}.${randomUUID().slice(0, 8)}`,
      );
      const relays: Relaying[] = [];
      let kafka: TestKafka;
      let database: pg.Client;
      let folder: string;
      let url: string;

      before(async () => {
        kafka = await startKafka();
        await Promise.all(topics.map((topic) => kafka.createTopic(topic)));
        url = await (await startPostgres()).freshDatabase();
        const store = openOutboxStore({ url, table, initializeSchema: 'always' });
        await store.prepare();
        await store.close(1_000);
        database = new pg.Client({ connectionString: url });
        await database.connect();
        folder = temporaryFolder('bad-rows');
      });
      after(async () => {
        for (const { child } of relays) child.kill('SIGTERM');
        await Promise.all(relays.map(({ ended }) => ended));
        await database?.end();
      });

      const relay = (): Relaying => {
        const child = spawn(process.execPath, [main, 'relay'], {
          cwd: folder,
          env: {
            ...{ ...hostEnvironment(), MANAGEMENT_SERVER_PORT: '0', SVC_BROKER_CLIENT: client },
            ...{ SVC_BROKER_BOOTSTRAP_SERVERS: kafka.brokers.join(), SVC_OUTBOX_ENABLED: 'true' },
            SVC_OUTBOX_DATASOURCE_URL: url,
            // Nobody tells of rows that are inserted by hand.
            SVC_OUTBOX_POLL_INTERVAL_MS: '100',
          },
          stdio: ['ignore', 'ignore', 'pipe'],
        });
        let stderr = '';
        child.stderr.setEncoding('utf8').on('data', (text: string) => {
          stderr += text;
        });
        return { child, ended: once(child, 'close'), stderr: () => stderr };
      };

      const insert = async (
        eventId: string,
        row: { headers?: string; topic?: string } = {},
      ): Promise<void> => {
        const aggregate = { aggregateType: 'Order', aggregateId: eventId };
        const { headers = goodHeaders, topic = topics[0] } = row;
        await database.query(
          `INSERT INTO ${table} (event_id, aggregate_type, aggregate_id, event_type, topic, record_key, headers, payload, shard, occurred_at)
         VALUES ($1, 'Order', $1, 'ORDERED', $2, $1, $3, '{}', $4, now())`,
          [eventId, topic, headers, shardOf(aggregate)],
        );
      };
      const rows = async (
        like: string,
      ): Promise<{ event_id: string; status: string; last_error: string | null; ms: number }[]> =>
        (
          await database.query(
            `SELECT event_id, status, last_error, (EXTRACT(EPOCH FROM published_at - created_at) * 1000)::int AS ms
           FROM ${table} WHERE event_id LIKE $1 ORDER BY id`,
            [like],
          )
        ).rows;
      const said = (): string => relays.map((one) => one.stderr()).join('\n');
      const until = (isSo: () => Promise<boolean>, limitMs: number): Promise<void> =>
        untilSo(isSo, { limitMs, everyMs: 50, say: said });

      it('sends the others at once, and sets each of them aside with its reason', async () => {
        for (const [name, row] of faults) await insert(`old bad ${name}`, row);
        for (let at = 0; at < 40; at++)
          await insert(`old good ${at}`, { topic: topics[at % topicCount] as string });
        relays.push(relay(), relay());
        await until(
          async () => (await rows('old good %')).every(({ status }) => status === 'PUBLISHED'),
          15_000,
        );
        for (const [at, [name, row]] of faults.entries()) {
          await insert(`new bad ${name}`, row);
          for (let each = 0; each < 6; each++)
            await insert(`new good ${at}-${each}`, { topic: topics[each % 3] as string });
        }
        await until(
          async () => (await rows('new good %')).every(({ status }) => status === 'PUBLISHED'),
          10_000,
        );
        const slowest = Math.max(...(await rows('new good %')).map(({ ms }) => ms));
        console.log(`      the slowest of them took ${slowest} ms`);
        assert.ok(slowest < 1_000, `${slowest} ms\n${said()}`);
        await until(async () => (await rows('% bad %')).every(({ status }) => status === 'FAILED'), 5_000);
        for (const [name, , says] of faults)
          for (const { last_error } of await rows(`% bad ${name}`)) assert.match(String(last_error), says);
        assert.doesNotMatch(said(), /OPEN|MaxListeners|cannot be sent/);
        for (const line of said().split('\n'))
          assert.ok(line.length < 1_000 && !line.includes('\u001b'), line);
      });
    },
  );
}
