import assert from 'node:assert/strict';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { inboxTable } from '../../../src/consume/inbox.ts';
import { freshFolder, writeFiles } from '../../e2e/support/run-app.ts';
import type { OwnDatabase } from '../../support/database.ts';
import { type OwnKafka, startOwnKafka } from '../../support/kafka.ts';
import { installPacked } from '../../support/packed.ts';
import { startOwnPostgres } from '../../support/postgres.ts';
import { requiring } from '../../support/requires.ts';
import { until } from '../../support/until.ts';
import { type KillableApp, killableApp } from './killable-app.ts';

/** How long things are killed. A longer run: `SVC_LEDGER_SECONDS=60 npm test -- test/faults/consumer/*.test.ts`. */
const chaosMs = Number(process.env.SVC_LEDGER_SECONDS ?? 8) * 1_000;
const isLong = process.env.SVC_LEDGER_SECONDS !== undefined;
const programs = join(import.meta.dirname, 'application');

requiring('own-kafka', 'ledger of a consumer', () => {
  requiring(
    'own-postgres',
    'orders with an outbox, Kafka, bills with an inbox and an outbox; all of it is killed',
    function () {
      this.timeout(chaosMs + 180_000);
      let kafka: OwnKafka;
      let postgres: OwnDatabase;

      before(async () => {
        [kafka, postgres] = await Promise.all([startOwnKafka(), startOwnPostgres()]);
      });
      after(() => Promise.all([kafka?.stop(), postgres?.stop()]));

      for (const client of ['kafkajs', 'platformatic'])
        it(`business rows on both sides are equal, nothing twice, the order of each key kept [${client}]`, async () => {
          const scene = await sceneOf(client);
          const { producer, consumers, query } = scene;
          const apps = [producer, ...consumers];
          try {
            for (const app of apps) app.start();
            await until(() => producer.said().includes('ready'), {
              limitMs: 20_000,
              say: () => producer.said(),
            });
            const killed = await chaos(apps, client === 'platformatic' || isLong);
            const count = async (sql: string) => Number((await query(sql))[0]?.count);
            await until(async () => (await count('SELECT count(*) FROM shop.orders')) > 200, {
              ...{ limitMs: 60_000, everyMs: 200, say: () => producer.said() },
            });
            await producer.stop();
            const orders = await count('SELECT count(*) FROM shop.orders');
            await until(async () => (await count('SELECT count(*) FROM bills.bills')) >= orders, {
              ...{ limitMs: 120_000, everyMs: 200 },
              say: async () =>
                `${JSON.stringify(await query('SELECT count(*) FROM bills.bills'))} of ${orders}\n${consumers.map((each) => each.said().slice(-3_000))}`,
            });
            await settle(scene, orders);
            process.stderr.write(`      ${orders} orders, killed: ${JSON.stringify(killed)}\n`);
          } finally {
            for (const app of apps) await app.kill();
          }
        });

      async function sceneOf(client: string) {
        const folder = freshFolder(
          installPacked('consumer', { pg: '8.23.1', '@platformatic/kafka': '2.12.1' }),
          client,
        );
        const url = await postgres.freshDatabase();
        const query = (sql: string) => postgres.query(url, sql);
        for (const schema of ['shop', 'bills']) await query(`CREATE SCHEMA ${schema}`);
        await query('CREATE TABLE shop.orders (key text, number int, PRIMARY KEY (key, number))');
        await query('CREATE TABLE bills.bills (id serial, key text, number int, event_id text)');
        const topics = { ORDERS: `orders-${client}`, BILLS: `bills-${client}` };
        for (const topic of Object.values(topics)) await kafka.createTopic(topic, { partitions: 4 });
        const [broker = ''] = kafka.brokers;
        const urlOf = (schema: string): string => `${url}?options=-csearch_path%3D${schema}`;
        const config = (schema: string) => ({
          svc: {
            broker: { 'bootstrap-servers': broker, topic: 'other' },
            outbox: {
              ...{ enabled: true, 'initialize-schema': 'always', table: `${schema}.svc_outbox_events` },
              ...{ datasource: { url }, 'poll-interval-ms': 200 },
            },
          },
        });
        const appOf = (schema: string, program: string): KillableApp => {
          const own = join(folder, `${program}-${schema}`);
          writeFiles(own, {
            'package.json': '{ "type": "module" }',
            'svc.config.json': JSON.stringify(config(schema)),
          });
          copyFileSync(join(programs, program), join(own, program));
          copyFileSync(join(programs, `${client}.mjs`), join(own, 'client.mjs'));
          const env = {
            ...topics,
            BROKER: broker,
            SHOP_DATABASE: urlOf('shop'),
            BILLS_DATABASE: urlOf('bills'),
          };
          return killableApp(own, program, env);
        };
        for (const sql of inboxTable.ddl('postgres', 'bills.svc_inbox_events')) await query(sql);
        const consumers = [appOf('bills', 'consumer.mjs'), appOf('bills', 'consumer.mjs')];
        return { producer: appOf('shop', 'producer.mjs'), consumers, query, topics };
      }

      /** Kills one of all at a time, and starts it again; server and broker once each. kafkajs takes a minute to come back to a broker. */
      async function chaos(
        apps: readonly KillableApp[],
        withBroker: boolean,
      ): Promise<Record<string, number>> {
        const killed: Record<string, number> = { producer: 0, consumer: 0, postgres: 0, kafka: 0 };
        const end = performance.now() + chaosMs;
        for (let turn = 0; performance.now() < end; turn++) {
          await sleep(500 + Math.random() * 1_500);
          if (turn === 2) {
            await postgres.kill();
            await postgres.restart();
            killed.postgres = 1;
          } else if (turn === 1 && withBroker) {
            await kafka.kill();
            await kafka.restart();
            killed.kafka = 1;
          } else {
            const index = Math.floor(Math.random() * apps.length);
            await apps[index]?.kill();
            apps[index]?.start();
            const name = index === 0 ? 'producer' : 'consumer';
            killed[name] = (killed[name] ?? 0) + 1;
          }
        }
        return killed;
      }

      async function settle(
        { query, topics }: Awaited<ReturnType<typeof sceneOf>>,
        orders: number,
      ): Promise<void> {
        assert.ok(orders > 100, `${orders} orders`);
        const differ = await query(
          'SELECT key, number FROM shop.orders FULL JOIN bills.bills USING (key, number) WHERE orders.key IS NULL OR bills.key IS NULL',
        );
        assert.deepEqual(differ, [], 'orders without a bill, or bills without an order');
        const twice = await query('SELECT key, number FROM bills.bills GROUP BY 1, 2 HAVING count(*) > 1');
        assert.deepEqual(twice, [], 'bills twice');
        const behind = await query(
          'SELECT * FROM (SELECT key, number, lag(number) OVER (PARTITION BY key ORDER BY id) AS before FROM bills.bills) AS b WHERE before > number',
        );
        assert.deepEqual(behind, [], 'bills before an earlier one of their key');
        const recorded = await query(
          'SELECT event_id FROM bills.bills EXCEPT SELECT event_id FROM bills.svc_inbox_events',
        );
        assert.deepEqual(recorded, [], 'bills that the inbox does not know');
        // What the consumer publishes: each bill has its one event, sent once at least.
        await until(
          async () =>
            Number(
              (await query("SELECT count(*) FROM bills.svc_outbox_events WHERE status <> 'PUBLISHED'"))[0]
                ?.count,
            ) === 0,
          { limitMs: 40_000, everyMs: 200 },
        );
        const published = new Set(
          (await kafka.read(topics.BILLS, { count: orders })).map(({ headers }) => headers.eventId),
        );
        assert.equal(published.size, orders);
      }
    },
  );
});
