import assert from 'node:assert/strict';
import { type Logger, throttledLog } from '../../src/observe/logger.ts';
import { useClock } from '../support/fake-time.ts';
import { useLogger } from '../support/log.ts';

type LogFields = Parameters<Logger['warn']>[1];

const quietMs = 10_000;

describe('quiet log', () => {
  function quietLog(...options: Parameters<typeof throttledLog>) {
    const lines: [string, LogFields][] = [];
    const nothing = () => {};
    const logger = {
      debug: nothing,
      info: nothing,
      warn: (text: string, fields?: LogFields) => lines.push([`warn: ${text}`, fields]),
      error: (text: string, fields?: LogFields) => lines.push([text, fields]),
    };
    const clock = useClock({ time: 0, monotonic: (): number => clock.time });
    useLogger(logger);
    return { say: throttledLog(...options), lines, clock };
  }

  it('says the first line of a key at once, and the next one after ten seconds with the number left out', () => {
    const { say, lines, clock } = quietLog();
    say('down', 'lost', { eventId: '1' });
    clock.time = quietMs - 1;
    say('down', 'lost', { eventId: '2' });
    assert.deepEqual(lines, [['lost', { eventId: '1' }]]);
    clock.time = quietMs;
    say('down', 'lost', { eventId: '3' });
    assert.deepEqual(lines[1], ['lost', { eventId: '3', andBefore: 1 }]);
    clock.time = 2 * quietMs;
    say('down', 'lost', { eventId: '4' });
    assert.deepEqual(lines[2], ['lost', { eventId: '4' }]);
  });

  it('warns, in another interval and without a number, where it is made so', () => {
    const { say, lines, clock } = quietLog({ level: 'warn', intervalMs: 5, saysLeftOut: false });
    for (clock.time = 0; clock.time < 10; clock.time++) say('full', 'no room');
    assert.deepEqual(lines, [
      ['warn: no room', undefined],
      ['warn: no room', undefined],
    ]);
  });

  it('keeps keys apart, as long as they are not without end', () => {
    const { say, lines } = quietLog();
    for (let key = 0; key < 200; key++) say(String(key), 'refused');
    assert.equal(lines.length, 101);
  });
});
