import assert from 'node:assert/strict';
import { join } from 'node:path';
import * as nodeSqlite from 'node:sqlite';
import { sqliteDrivers } from '../../src/adapters/sqlite/sqlite-driver.ts';
import { runOwnWork } from '../../src/ground/lifecycle.ts';
import type { OutboxPort } from '../../src/outbox/api/executor.ts';
import type { OutboxEvent } from '../../src/outbox/api/outbox-event.ts';
import { patchDriver } from '../contract/captured.ts';
import { temporaryFolder } from '../support/folders.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

interface Way {
  readonly title: string;
  /** How the application sends its statements. */
  readonly send: <R>(work: () => R) => R;
  /** What svc counts an event as that was stored before one that was refused: of what it does not see, the application may commit it. */
  readonly before: 'rolled_back' | 'outbox';
  /** And the one that the database has refused: a driver that answers at once throws into the call. */
  readonly refused: 'rolled_back' | 'refused';
}

const ways: readonly Way[] = [
  {
    title: 'with a driver that svc follows',
    send: (work) => work(),
    before: 'rolled_back',
    refused: 'refused',
  },
  // The patched methods let through what is svc's own: they see nothing of it.
  {
    title: 'with a driver that svc does not follow',
    send: runOwnWork,
    before: 'outbox',
    refused: 'rolled_back',
  },
];

for (const way of ways) describe(`outbox.save() of a list ${way.title}`, () => testLists(way));

/** Call it inside a suite. Each test can run again in the same database: it counts from where it began. */
function testLists({ send, ...outcome }: Way): void {
  let folder: string;
  let svc: StartedSvc;
  let database: nodeSqlite.DatabaseSync;
  let address: string;

  before(async function () {
    this.timeout(20_000);
    // Whichever suites ran before in this process: a driver is patched once, and for good.
    patchDriver(sqliteDrivers.nodeSqlite, nodeSqlite);
    folder = temporaryFolder('list');
    const file = join(folder, 'shop.db');
    const listens = Promise.withResolvers<string>();
    const info = (line: string): void => {
      const found = /management on (http:\S+)\/metrics/.exec(line)?.[1];
      if (found !== undefined) listens.resolve(found);
    };
    svc = startSvc(
      { client: 'memory' },
      {
        outbox: {
          ...{ publisherEnabled: false, onNoTransaction: 'error' },
          datasource: { url: `sqlite:${file}` },
        },
        logger: { debug() {}, info, warn() {}, error() {} },
      },
    );
    address = await listens.promise;
    database = new nodeSqlite.DatabaseSync(file);
  });
  after(async () => {
    database?.close();
    await svc?.end();
  });

  const event = (eventType: string, aggregateId = '1'): OutboxEvent => ({
    ...{ eventType, aggregateType: 'Order', aggregateId, payload: {} },
  });
  /** The application's transaction. */
  async function save(events: readonly OutboxEvent[]): Promise<void> {
    const executor: OutboxPort = {
      dialect: 'sqlite',
      execute(text, values) {
        send(() => database.prepare(text).run(...(values as nodeSqlite.SQLInputValue[])));
      },
    };
    send(() => database.exec('BEGIN'));
    try {
      await svc.service.outbox?.save(executor, events);
      send(() => database.exec('COMMIT'));
    } catch (error) {
      send(() => database.exec('ROLLBACK'));
      throw error;
    }
  }

  interface Found {
    /** What became of the calls, by their type: the outcomes that are not 0. */
    readonly calls: Record<string, Record<string, number>>;
    readonly rows: number;
  }
  async function numbers(): Promise<Map<string, number>> {
    const text = await (await fetch(`${address}/metrics`)).text();
    const lines = text.matchAll(/^svc_events_(\w+?)(?:_total)?\{eventType="(\w)"\} (\d+)$/gm);
    return new Map([...lines].map(([, name, type, value]) => [`${type} ${name}`, Number(value)]));
  }
  const rows = (): number => Number(database.prepare('SELECT count(*) AS n FROM svc_outbox_events').get()?.n);
  async function during(work: () => Promise<unknown>, ...types: string[]): Promise<Found> {
    const [numbersBefore, rowsBefore] = [await numbers(), rows()];
    await work();
    const calls: Found['calls'] = Object.fromEntries(types.map((type) => [type, {}]));
    for (const [key, value] of await numbers()) {
      const [type = '', name = ''] = key.split(' ');
      const more = value - (numbersBefore.get(key) ?? 0);
      const ofType = calls[type];
      if (more !== 0 && name !== 'failed' && ofType !== undefined) ofType[name] = more;
    }
    return { calls, rows: rows() - rowsBefore };
  }

  it('stores all of them', async () => {
    const found = await during(() => save([event('A'), event('B'), event('C')]), 'A', 'B', 'C');
    const one = { calls: 1, outbox: 1 };
    assert.deepEqual(found, { calls: { A: one, B: one, C: one }, rows: 3 });
  });

  it('stops at one that is refused: each that was looked at has one outcome, those behind it are no calls', async () => {
    const refused = () =>
      assert.rejects(save([event('D'), event('E', ''), event('F')]), { code: 'SVC_OUTBOX_EVENT' });
    assert.deepEqual(await during(refused, 'D', 'E', 'F'), {
      calls: { D: { calls: 1, [outcome.before]: 1 }, E: { calls: 1, refused: 1 }, F: {} },
      rows: 0,
    });
  });

  it('stops at one that the database refuses', async () => {
    database.exec(
      "CREATE TRIGGER refuse BEFORE INSERT ON svc_outbox_events WHEN NEW.event_type = 'H' BEGIN SELECT RAISE(ABORT, 'refused'); END",
    );
    try {
      const refused = () =>
        assert.rejects(save([event('G'), event('H'), event('I')]), { code: 'SVC_OUTBOX_INSERT' });
      assert.deepEqual(await during(refused, 'G', 'H', 'I'), {
        calls: { G: { calls: 1, [outcome.before]: 1 }, H: { calls: 1, [outcome.refused]: 1 }, I: {} },
        rows: 0,
      });
    } finally {
      database.exec('DROP TRIGGER refuse');
    }
  });
}
