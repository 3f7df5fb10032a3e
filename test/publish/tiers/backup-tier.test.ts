import assert from 'node:assert/strict';
import sinon from 'sinon';
import { SvcError } from '../../../src/ground/errors.ts';
import {
  type BackupEvent,
  type EventBackupStrategy,
  registerBackupStrategy,
  registeredBackupStrategies,
} from '../../../src/publish/tier.ts';
import { createBackupTier } from '../../../src/publish/tiers/tiers.ts';
import { useClock } from '../../support/fake-time.ts';
import { useLogger } from '../../support/log.ts';
import { failedEvent } from '../failed-event.ts';

type Fake = EventBackupStrategy & { readonly stored: BackupEvent[]; answer: () => Promise<void> };

function strategy(name: string, rest: Partial<EventBackupStrategy> = {}): Fake {
  const fake: Fake = {
    name,
    stored: [],
    answer: async () => {},
    async store(event) {
      await fake.answer();
      fake.stored.push(event);
    },
    ...rest,
  };
  return fake;
}

function tierOf(...strategies: EventBackupStrategy[]) {
  const errors: string[] = [];
  const time = { nowMs: 0 };
  useClock({ now: () => 1_780_000_002_000, monotonic: () => time.nowMs });
  useLogger({ debug() {}, info() {}, warn() {}, error: (message) => errors.push(message) });
  const tier = createBackupTier({
    strategies: () => strategies,
  });
  return { tier, errors, time };
}

const s3Failed = (): Promise<void> =>
  Promise.reject(new SvcError('SVC_ADAPTERS_BACKUP_FAILED', 'S3 bucket "b": access denied'));

describe('backup tier', () => {
  afterEach(() => sinon.restore());

  it('gives the first strategy the bytes, the route and the reason', async () => {
    const [s3, files] = [strategy('s3'), strategy('files')];
    const failed = failedEvent('1');
    assert.equal(await tierOf(s3, files).tier.store(failed), true);
    assert.deepEqual(s3.stored, [
      {
        eventId: '1',
        eventType: 'ORDER_CREATED',
        topic: 'orders',
        key: 'key-1',
        headers: failed.record.headers,
        value: failed.record.value,
        reason: 'ECONNREFUSED',
        backedUpAt: 1_780_000_002_000,
      },
    ]);
    assert.equal(files.stored.length, 0);
  });

  it('falls through to the next one, passes the failed one over for 5 s, and says so once', async () => {
    const [s3, files] = [strategy('s3'), strategy('files')];
    const { tier, errors, time } = tierOf(s3, files);
    s3.answer = s3Failed;
    assert.equal(await tier.store(failedEvent('1')), true);
    s3.answer = async () => {};
    time.nowMs = 4_999;
    assert.equal(await tier.store(failedEvent('2')), true);
    time.nowMs = 5_000;
    assert.equal(await tier.store(failedEvent('3')), true);
    assert.deepEqual(
      files.stored.map(({ eventId }) => eventId),
      ['1', '2'],
    );
    assert.deepEqual(
      s3.stored.map(({ eventId }) => eventId),
      ['3'],
    );
    assert.deepEqual(errors, ['backup "s3" failed: S3 bucket "b": access denied']);
  });

  it('always tries the last one', async () => {
    const files = strategy('files');
    const { tier } = tierOf(files);
    files.answer = s3Failed;
    assert.equal(await tier.store(failedEvent('1')), false);
    files.answer = async () => {};
    assert.equal(await tier.store(failedEvent('2')), true);
  });

  it('without a strategy has stored nothing', async () => {
    assert.equal(await tierOf().tier.store(failedEvent('1')), false);
  });

  it('does not wait longer than 30 s for an answer', async () => {
    const clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const [s3, files] = [strategy('s3'), strategy('files')];
    s3.answer = () => new Promise(() => {});
    const stored = tierOf(s3, files).tier.store(failedEvent('1'));
    await clock.tickAsync(29_999);
    assert.equal(files.stored.length, 0);
    await clock.tickAsync(1);
    assert.equal(await stored, true);
    assert.equal(files.stored.length, 1);
  });

  it('has 256 events at one that is slow; more go to the next one', async () => {
    const [s3, files] = [strategy('s3'), strategy('files')];
    s3.answer = () => new Promise(() => {});
    const { tier } = tierOf(s3, files);
    for (let id = 0; id < 256; id++) void tier.store(failedEvent(String(id)));
    assert.equal(files.stored.length, 0);
    assert.equal(await tier.store(failedEvent('256')), true);
    assert.equal(files.stored.length, 1);
  });

  it('has 128 MiB at one that hangs, even if it is the last one: the memory has an end', async () => {
    const hanging = strategy('hanging');
    hanging.answer = () => new Promise(() => {});
    const { tier, errors } = tierOf(hanging);
    const value = Buffer.alloc(1024 * 1024);
    const store = (id: number): Promise<boolean> => {
      const failed = failedEvent(String(id));
      return tier.store({ ...failed, record: { ...failed.record, value } });
    };
    let answers = 0;
    for (let id = 0; id < 128; id++) void store(id).then(() => answers++);
    assert.equal(await store(128), false);
    assert.equal(answers, 0);
    assert.deepEqual(errors, [
      'backup "hanging" failed: it is too slow: 134217728 bytes wait for its answer',
    ]);
  });

  it('shows no message of an error that is not ours', async () => {
    const custom = strategy('custom');
    custom.answer = () => Promise.reject(new TypeError('john@example.com'));
    const { tier, errors } = tierOf(custom);
    assert.equal(await tier.store(failedEvent('1')), false);
    assert.deepEqual(errors, ['backup "custom" failed: TypeError']);
  });

  it('names what the system says, and no other code', async () => {
    const custom = strategy('custom');
    const { tier, errors, time } = tierOf(custom);
    for (const code of ['ENOSPC', 'john@example.com']) {
      custom.answer = () => Promise.reject(Object.assign(new Error('no'), { code }));
      await tier.store(failedEvent('1'));
      time.nowMs += 5_000;
    }
    assert.deepEqual(errors, ['backup "custom" failed: ENOSPC', 'backup "custom" failed: Error']);
  });

  it('at the end stores synchronously with the first one that can', () => {
    const kept: string[] = [];
    const broken = strategy('broken', {
      storeSync: () => {
        throw new TypeError('no');
      },
    });
    const files = strategy('files', {
      storeSync: (events) => void kept.push(...events.map(({ eventId }) => eventId)),
    });
    const { tier } = tierOf(strategy('s3'), broken, files);
    assert.equal(tier.storeSync([failedEvent('1'), failedEvent('2')]), 2);
    assert.deepEqual(kept, ['1', '2']);
    assert.equal(tierOf(strategy('s3')).tier.storeSync([failedEvent('1')]), 0);
  });

  it('an application registers its own, and takes it out again', () => {
    const own = strategy('own');
    const remove = registerBackupStrategy(own);
    assert.deepEqual(registeredBackupStrategies(), [own]);
    remove();
    assert.deepEqual(registeredBackupStrategies(), []);
  });

  it('refuses what is no strategy when it is registered, not in an outage', () => {
    const store = async (): Promise<void> => {};
    for (const wrong of [
      undefined,
      null,
      {},
      { name: 'own' },
      { store },
      { name: '', store },
      { name: 'own', store: true },
      { name: 'own', store, storeSync: true },
      { name: 'own', store, close: 5 },
    ])
      assert.throws(() => registerBackupStrategy(wrong as never), {
        code: 'SVC_PUBLISH_BACKUP_STRATEGY',
      });
    assert.deepEqual(registeredBackupStrategies(), []);
  });

  it('one that stores at once, without a promise, has stored; one that throws at once has not', async () => {
    const kept: string[] = [];
    const sync = { name: 'sync', store: ({ eventId }: BackupEvent) => void kept.push(eventId) };
    assert.equal(await tierOf(sync as never).tier.store(failedEvent('1')), true);
    assert.deepEqual(kept, ['1']);
    const broken = {
      name: 'broken',
      store: () => {
        throw new TypeError('no');
      },
    };
    assert.equal(await tierOf(broken as never).tier.store(failedEvent('2')), false);
  });

  it('a promise at the end of the process stores nothing: the next one is asked', () => {
    const late = { ...strategy('late'), storeSync: () => Promise.reject(new Error('too late')) };
    const kept: string[] = [];
    const files = strategy('files', {
      storeSync: (events) => void kept.push(...events.map(({ eventId }) => eventId)),
    });
    const { tier, errors } = tierOf(late, files);
    assert.equal(tier.storeSync([failedEvent('1')]), 1);
    assert.deepEqual(kept, ['1']);
    assert.match(String(errors), /backup "late" failed: its storeSync returns a promise/);
  });

  it('closes each strategy until the deadline, whatever another one does', async () => {
    const closed: string[] = [];
    const { tier } = tierOf(
      strategy('sync', { close: (() => void closed.push('sync')) as never }),
      strategy('throws', {
        close: () => {
          throw new TypeError('no');
        },
      }),
      strategy('never', { close: () => new Promise(() => {}) }),
      strategy('files', { close: async () => void closed.push('files') }),
    );
    await tier.close(20);
    assert.deepEqual(closed, ['sync', 'files']);
  });

  it('a busy strategy is waited for before an event is lost, 32 events at a time', async () => {
    const [s3, files] = [strategy('s3'), strategy('files')];
    files.answer = s3Failed;
    let release: (() => void)[] = [];
    s3.answer = () => new Promise((resolve) => release.push(resolve));
    const { tier } = tierOf(s3, files);
    const stores = Array.from({ length: 300 }, (_, id) => tier.store(failedEvent(String(id))));
    await new Promise(setImmediate);
    assert.equal(release.length, 256 + 32);
    while (s3.stored.length < 300) {
      for (const resolve of release.splice(0)) resolve();
      await new Promise(setImmediate);
    }
    release = [];
    assert.ok((await Promise.all(stores)).every(Boolean));
  });

  it('one that failed is asked once more before an event is lost, and no third time', async () => {
    const [s3, files] = [strategy('s3'), strategy('files')];
    files.answer = s3Failed;
    let asked = 0;
    s3.answer = async () => {
      if (++asked === 1) await s3Failed();
    };
    const { tier } = tierOf(s3, files);
    assert.equal(await tier.store(failedEvent('1')), true);
    s3.answer = async () => {
      asked++;
      await s3Failed();
    };
    asked = 0;
    assert.deepEqual([await tier.store(failedEvent('2')), asked], [false, 1]);
  });
});
