import assert from 'node:assert/strict';
import sinon from 'sinon';
import { patchRequestQueue } from '../../../../src/adapters/kafkajs/kafkajs-client.ts';

interface Queue {
  maybeThrottle(forMs: number): void;
  push(request: object): void;
  fulfillRequest(response: object): void;
  scheduleRequestTimeoutCheck(): void;
  destroy(): void;
  readonly inflight: Map<number, unknown>;
}

describe('request queue of kafkajs, patched', () => {
  let clock: sinon.SinonFakeTimers;
  let queue: Queue;
  let written: number[];

  before(() => patchRequestQueue());
  beforeEach(async () => {
    // @ts-expect-error kafkajs has no types for its inner modules.
    const { default: RequestQueue } = await import('kafkajs/src/network/requestQueue/index.js');
    clock = sinon.useFakeTimers({ now: 1_700_000_000_000 });
    written = [];
    const logger = { debug() {}, warn() {} };
    queue = new RequestQueue({
      maxInFlightRequests: null,
      requestTimeout: 1000,
      enforceRequestTimeout: true,
      clientId: 'c',
      broker: 'b',
      logger,
    });
    queue.scheduleRequestTimeoutCheck();
  });
  afterEach(() => clock.restore());

  function push(correlationId: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const entry = { correlationId, apiName: 'Produce', apiKey: 0, apiVersion: 7, resolve, reject };
      queue.push({ entry, expectResponse: true, sendRequest: () => written.push(correlationId) });
    });
  }

  it('has no timer while nothing is under way', async () => {
    assert.equal(clock.countTimers(), 0);
    const answer = push(1);
    assert.equal(clock.countTimers(), 1);
    queue.fulfillRequest({ correlationId: 1, payload: null, size: 0 });
    await answer;
    await clock.tickAsync(100);
    assert.equal(clock.countTimers(), 0);
  });

  it('fails a request that gets no answer, and goes on with the next', async () => {
    for (const id of [1, 2]) {
      const answer = push(id).then(
        () => assert.fail(),
        (error: Error) => error.name,
      );
      await clock.tickAsync(1000);
      assert.equal(queue.inflight.size, 1);
      await clock.tickAsync(100);
      assert.equal(await answer, 'KafkaJSRequestTimeoutError');
    }
    await clock.tickAsync(100);
    assert.equal(clock.countTimers(), 0);
  });

  it('holds requests back while the broker throttles, and no longer', async () => {
    queue.maybeThrottle(500);
    const answer = push(1);
    await clock.tickAsync(499);
    assert.deepEqual(written, []);
    await clock.tickAsync(1);
    assert.deepEqual(written, [1]);
    queue.fulfillRequest({ correlationId: 1, payload: null, size: 0 });
    await answer;
    await clock.tickAsync(100);
    assert.equal(clock.countTimers(), 0);
  });

  it('checks again for a request after it was destroyed by a reconnect', async () => {
    void push(1).catch(() => {});
    queue.destroy();
    assert.equal(clock.countTimers(), 0);
    void push(2).catch(() => {});
    assert.equal(clock.countTimers(), 1);
    queue.destroy();
  });
});
