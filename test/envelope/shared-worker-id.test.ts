import assert from 'node:assert/strict';
import { createSnowflake, createWordSource, randomWords } from '../../src/envelope/ids.ts';
import { snowflakeEpochMs } from '../../src/ground/event-fields.ts';
import { useClock } from '../support/fake-time.ts';

const eventsPerSecond = 100;

/** How many ids two processes with one worker id have in common, each with events at random times of one hour. */
function equalIds(firstSequenceOf: (process: number) => () => number): number {
  const seen = new Set<string>();
  let equal = 0;
  for (const process of [0, 1]) {
    const clock = useClock({ ms: 0, now: (): number => snowflakeEpochMs + 7e10 + Math.floor(clock.ms) });
    const ids = createSnowflake({ workerId: 5, firstSequence: firstSequenceOf(process) });
    const draw = createWordSource(Uint32Array.of(process, 71, 29, 3));
    let count = 0;
    for (;;) {
      clock.ms += (-Math.log((draw() + 1) / 2 ** 32) / eventsPerSecond) * 1000;
      if (clock.ms >= 3_600_000) break;
      const id = ids.next();
      count++;
      if (seen.has(id)) equal++;
      seen.add(id);
    }
    assert.ok(Math.abs(count - 360_000) < 3600, `${count} events`);
  }
  return equal;
}

describe('two processes with one worker id, each with 100 events a second for an hour', function () {
  this.timeout(60_000);

  it('make about ten equal ids, where each millisecond begins at a random place', () => {
    const sources = [11, 12].map((seed) => createWordSource(Uint32Array.of(seed, 2, 3, 4)));
    const equal = equalIds((process) => () => (sources[process]?.() ?? 0) & 4095);
    // Expected are 360,000 * 0.1 / 4,096 = 9.
    assert.ok(equal >= 1 && equal <= 20, String(equal));
  });

  it('make tens of thousands where each begins at 0', () => {
    const equal = equalIds(() => () => 0);
    assert.ok(equal > 30_000 && equal < 50_000, String(equal));
  });
});

describe('random words', () => {
  it('differ, also where the application has made Math.random repeat', () => {
    const { random } = Math;
    Math.random = () => 0.5;
    try {
      // Windows has no device; one that gives too little is none.
      for (const devicePath of ['/dev/urandom', 'no-such-device', '/dev/null']) {
        const drawn = Array.from({ length: 100 }, () => {
          const draw = createWordSource(randomWords(4, devicePath));
          return [draw(), draw(), draw(), draw()].join();
        });
        assert.equal(new Set(drawn).size, 100, devicePath);
      }
    } finally {
      Math.random = random;
    }
  });

  it('repeat from one seed, all 32 bits of them, without a short round', () => {
    const [one, other] = [7, 7].map((seed) => createWordSource(Uint32Array.of(seed, 0, 0, 0)));
    const words = Array.from({ length: 20_000 }, () => one?.() as number);
    assert.deepEqual(
      words.slice(0, 100),
      Array.from({ length: 100 }, () => other?.()),
    );
    assert.ok(new Set(words).size > 19_990);
    for (let bit = 0; bit < 32; bit++) {
      const ones = words.filter((word) => ((word >>> bit) & 1) === 1).length;
      // Six standard deviations.
      assert.ok(Math.abs(ones - 10_000) < 425, `bit ${bit}: ${ones}`);
    }
  });
});
