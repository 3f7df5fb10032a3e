import assert from 'node:assert/strict';
import sinon from 'sinon';
import { SvcError } from '../../../src/ground/errors.ts';
import { prepareStore } from '../../../src/start/outbox/prepare-store.ts';

describe('the tables of an outbox at the start', () => {
  let time: sinon.SinonFakeTimers;
  let said: string[];
  const say = (message: string): void => void said.push(message);
  const logger = { debug: say, info: say, warn: say, error: say };
  beforeEach(() => {
    time = sinon.useFakeTimers();
    said = [];
  });
  afterEach(() => time.restore());

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
    await prepareStore(store, logger).tried;
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
    await prepareStore(wrong, logger).tried;
    const away = failing('SVC_OUTBOX_UNREACHABLE');
    const preparation = prepareStore(away, logger);
    await preparation.tried;
    preparation.stop();
    await time.tickAsync(600_000);
    assert.deepEqual([wrong.calls, away.calls], [1, 1]);
  });
});
