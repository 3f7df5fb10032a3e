import assert from 'node:assert/strict';
import type sinon from 'sinon';
import { SvcError } from '../../src/ground/errors.ts';
import { prepareStore } from '../../src/outbox/outbox.ts';
import { fakeTime } from '../support/fake-time.ts';
import { useLogger } from '../support/log.ts';

describe('the tables of an outbox at the start', () => {
  let time: sinon.SinonFakeTimers;
  let said: string[];
  const say = (message: string): void => void said.push(message);
  beforeEach(() => {
    time = fakeTime();
    said = [];
    useLogger({ debug: say, info: say, warn: say, error: say });
    refusal = undefined;
  });
  afterEach(() => time.restore());

  const refused = new SvcError('SVC_OUTBOX_CONTRADICTION', 'it contradicts');
  let refusal: SvcError | undefined;
  const begin = (
    store: { prepare(): Promise<void> },
    {
      makesTables = false,
      look = async () => {},
    }: { makesTables?: boolean; look?: () => Promise<void> } = {},
  ) =>
    prepareStore({
      ...{ store, makesTables, maxWaitMs: 2_000 },
      senders: { look, refusal: () => refusal },
    });
  /** How the wait of an event has gone so far. */
  const followed = (ready: Promise<void> | undefined): { how: string } => {
    const state = { how: ready === undefined ? 'at once' : 'waits' };
    ready?.then(
      () => (state.how = 'goes on'),
      ({ code }) => (state.how = code),
    );
    return state;
  };

  const failing = (...codes: (ConstructorParameters<typeof SvcError>[0] | undefined)[]) => {
    const store = {
      calls: 0,
      async prepare(): Promise<void> {
        const code = codes[Math.min(store.calls++, codes.length - 1)];
        if (code !== undefined) throw new SvcError(code, `it is ${code}`);
      },
    };
    return store;
  };

  it('are looked at again after 1, 2, 4 s and so on while the database is away, which is said once', async () => {
    const store = failing(
      'SVC_OUTBOX_UNREACHABLE',
      'SVC_OUTBOX_UNREACHABLE',
      'SVC_OUTBOX_UNREACHABLE',
      undefined,
    );
    await begin(store).tried;
    assert.equal(store.calls, 1);
    for (const [ms, calls] of [
      [999, 1],
      [1, 2],
      [1_999, 2],
      [1, 3],
      [4_000, 4],
      [600_000, 4],
    ] as const) {
      await time.tickAsync(ms);
      assert.equal(store.calls, calls);
    }
    assert.deepEqual(said, ['outbox: it is SVC_OUTBOX_UNREACHABLE']);
  });

  it('are not looked at again where something else is wrong, or at the end', async () => {
    const wrong = failing('SVC_OUTBOX_SCHEMA_VERSION');
    await begin(wrong).tried;
    const away = failing('SVC_OUTBOX_UNREACHABLE');
    const preparation = begin(away);
    await preparation.tried;
    preparation.stop();
    await time.tickAsync(600_000);
    assert.deepEqual([wrong.calls, away.calls], [1, 1]);
  });

  it('that are read-only are looked at again as well: a standby becomes the primary', async () => {
    const standby = failing('SVC_OUTBOX_READ_ONLY', undefined);
    await begin(standby).tried;
    await time.tickAsync(1_000);
    assert.equal(standby.calls, 2);
  });

  it('are waited for by events, the look at their settings included, for max-wait at most', async () => {
    const looked = Promise.withResolvers<void>();
    const preparation = begin(failing(undefined), { look: () => looked.promise });
    const first = followed(preparation.ready());
    await time.tickAsync(1_999);
    assert.equal(first.how, 'waits');
    await time.tickAsync(1);
    assert.equal(first.how, 'goes on');
    const second = followed(preparation.ready());
    looked.resolve();
    await time.tickAsync(0);
    assert.equal(second.how, 'goes on');
    assert.equal(preparation.ready(), undefined);
  });

  it('that contradict the settings fail each event, those that wait too', async () => {
    const preparation = begin(failing(undefined), {
      look: async () => {
        refusal = refused;
      },
    });
    const first = followed(preparation.ready());
    await preparation.tried;
    await time.tickAsync(0);
    assert.equal(first.how, 'SVC_OUTBOX_CONTRADICTION');
    assert.throws(() => preparation.ready(), { code: 'SVC_OUTBOX_CONTRADICTION' });
    refusal = undefined;
    assert.equal(preparation.ready(), undefined);
  });

  it('that are to be made are tried again for an event, a second after the last time at the earliest', async () => {
    const away = 'SVC_OUTBOX_UNREACHABLE';
    const store = failing(away, away, undefined);
    const preparation = begin(store, { makesTables: true });
    await preparation.tried;
    await time.tickAsync(1_000);
    assert.deepEqual([store.calls, preparation.isReady()], [2, false]);
    await time.tickAsync(999);
    assert.deepEqual([followed(preparation.ready()).how, store.calls], ['at once', 2]);
    await time.tickAsync(1);
    const event = followed(preparation.ready());
    await time.tickAsync(0);
    assert.deepEqual([event.how, store.calls, preparation.isReady()], ['goes on', 3, true]);
    await time.tickAsync(600_000);
    assert.equal(store.calls, 3);
  });

  it('that others make hold up nothing after the first look', async () => {
    const preparation = begin(failing('SVC_OUTBOX_UNREACHABLE'));
    await preparation.tried;
    await time.tickAsync(1_500);
    assert.deepEqual([followed(preparation.ready()).how, preparation.isReady()], ['at once', true]);
    preparation.stop();
  });
});
