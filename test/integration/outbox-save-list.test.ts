import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import type { OutboxPort } from '../../src/outbox/api/executor.ts';
import type { OutboxEvent } from '../../src/outbox/api/outbox-event.ts';
import { temporaryFolder } from '../support/folders.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

describe('outbox.save() of a list', function () {
  this.timeout(20_000);
  let folder: string;
  let svc: StartedSvc;
  let database: DatabaseSync;
  let address: string;

  before(async () => {
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
    database = new DatabaseSync(file);
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
        database.prepare(text).run(...(values as SQLInputValue[]));
      },
    };
    database.exec('BEGIN');
    try {
      await svc.service.outbox?.save(executor, events);
      database.exec('COMMIT');
    } catch (error) {
      database.exec('ROLLBACK');
      throw error;
    }
  }

  /** What became of the calls of these types: the outcomes that are not 0. */
  async function counts(...types: string[]): Promise<object> {
    const text = await (await fetch(`${address}/metrics`)).text();
    const found: Record<string, object> = {};
    for (const type of types) {
      const numbers: Record<string, number> = {};
      for (const [, name = '', value] of text.matchAll(
        new RegExp(`^svc_events_(\\w+?)(?:_total)?\\{eventType="${type}"\\} (\\d+)$`, 'gm'),
      ))
        if (Number(value) > 0 && name !== 'failed') numbers[name] = Number(value);
      found[type] = numbers;
    }
    return found;
  }

  it('stores all of them', async () => {
    await save([event('A'), event('B'), event('C')]);
    const stored = { calls: 1, outbox: 1 };
    assert.deepEqual(await counts('A', 'B', 'C'), { A: stored, B: stored, C: stored });
    assert.equal(database.prepare('SELECT count(*) AS n FROM svc_outbox_events').get()?.n, 3);
  });

  it('stops at one that is refused: each that was looked at has one outcome, those behind it are no calls', async () => {
    await assert.rejects(save([event('D'), event('E', ''), event('F')]), { code: 'SVC_OUTBOX_EVENT' });
    assert.deepEqual(await counts('D', 'E', 'F'), {
      D: { calls: 1, rolled_back: 1 },
      E: { calls: 1, refused: 1 },
      F: {},
    });
  });

  it('stops at one that the database refuses', async () => {
    database.exec(
      "CREATE TRIGGER refuse BEFORE INSERT ON svc_outbox_events WHEN NEW.event_type = 'H' BEGIN SELECT RAISE(ABORT, 'refused'); END",
    );
    await assert.rejects(save([event('G'), event('H'), event('I')]), { code: 'SVC_OUTBOX_INSERT' });
    const { I, ...others } = (await counts('G', 'H', 'I')) as Record<string, Record<string, number>>;
    assert.deepEqual(I, {});
    for (const [type, { calls, ...ends }] of Object.entries(others)) {
      assert.equal(calls, 1, type);
      assert.deepEqual(Object.values(ends), [1], type);
      assert.equal(ends.outbox, undefined, type);
    }
    assert.equal(database.prepare('SELECT count(*) AS n FROM svc_outbox_events').get()?.n, 3);
  });
});
