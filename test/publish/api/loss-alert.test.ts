import assert from 'node:assert/strict';
import { createLossAlert, onEventLost } from '../../../src/publish/api/caller-wait.ts';
import { useClock } from '../../support/fake-time.ts';
import { useLogger } from '../../support/log.ts';
import { away, failedEvent } from '../failed-event.ts';

describe('loss alert', () => {
  it('tells every listener, whatever another one throws or rejects with', async () => {
    const errors: string[] = [];
    const logger = { debug() {}, info() {}, warn() {}, error: (message: string) => errors.push(message) };
    const told: string[] = [];
    const rejections: unknown[] = [];
    const onRejection = (error: unknown): void => void rejections.push(error);
    process.on('unhandledRejection', onRejection);
    const stops = [
      onEventLost(() => {
        throw new TypeError('no pager');
      }),
      onEventLost(async () => {
        throw new TypeError('no network');
      }),
      onEventLost(({ eventId }) => void told.push(eventId)),
    ];
    try {
      useClock({ monotonic: () => 0 });
      useLogger(logger);
      const alert = createLossAlert();
      alert.lost(failedEvent('1').event, 'orders', away);
      await new Promise((resolve) => setImmediate(resolve));
    } finally {
      for (const stop of stops) stop();
      process.removeListener('unhandledRejection', onRejection);
    }
    assert.deepEqual(told, ['1']);
    assert.deepEqual(errors.slice(1), Array(2).fill('a listener of onEventLost threw'));
    assert.deepEqual(rejections, []);
  });
});
