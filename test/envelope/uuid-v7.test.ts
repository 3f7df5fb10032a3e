import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fc from 'fast-check';
import sinon from 'sinon';
import { eventIds } from '../support/event-ids.ts';
import { useClock } from '../support/fake-time.ts';

const form = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
/** The time of the example in RFC 9562, appendix A.6. */
const exampleMs = Date.UTC(2022, 1, 22, 19, 22, 22);

function makerAt(startMs: number) {
  const clock = useClock({ ms: startMs, now: (): number => clock.ms });
  return { clock, ids: eventIds({ type: 'uuidv7' }) };
}

/** The bytes that are drawn at random are these, over and over. An id takes seven. */
function drawOnly(...values: number[]): void {
  const fill = (bytes: Buffer) => bytes.fill(Buffer.from(values));
  sinon.stub(crypto, 'randomFillSync').callsFake(fill as typeof crypto.randomFillSync);
}

function timeOf(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

describe('event ids that are UUIDs', () => {
  afterEach(() => sinon.restore());

  it('writes time, version, counter and variant where RFC 9562 has them', () => {
    drawOnly(0);
    const { ids } = makerAt(exampleMs);
    assert.equal(ids.next(), '017f22e2-79b0-7000-8000-000000000000');
    assert.equal(ids.next(), '017f22e2-79b0-7000-8010-000000000000');
    for (let index = 2; index < 1024; index++) ids.next();
    assert.equal(ids.next(), '017f22e2-79b0-7001-8000-000000000000');
  });

  it('goes on in the next millisecond where the counter is full', () => {
    drawOnly(0xff);
    const { clock, ids } = makerAt(exampleMs);
    assert.equal(ids.next(), '017f22e2-79b0-7fff-bfff-ffffffffffff');
    assert.equal(ids.next(), '017f22e2-79b1-7fff-bfff-ffffffffffff');
    clock.ms += 1;
    assert.equal(ids.next(), '017f22e2-79b2-7fff-bfff-ffffffffffff');
    clock.ms += 9;
    assert.equal(ids.next(), '017f22e2-79ba-7fff-bfff-ffffffffffff');
  });

  it('fills the counter before it goes on in the next millisecond', () => {
    drawOnly(0xfe, ...Array(6).fill(0xff));
    const { ids } = makerAt(exampleMs);
    assert.match(ids.next(), /^017f22e2-79b0-7fff-bfe/);
    assert.match(ids.next(), /^017f22e2-79b0-7fff-bff/);
    assert.match(ids.next(), /^017f22e2-79b1-7fff-bfe/);
  });

  it('rises as text and has its form under any walk of the clock, back by years too', () => {
    const steps = fc.array(
      fc.tuple(
        fc.oneof(fc.integer({ min: -50, max: 50 }), fc.integer({ min: -1e11, max: 1e9 })),
        fc.integer({ min: 1, max: 2000 }),
      ),
      { maxLength: 12 },
    );
    const property = fc.property(steps, (walk) => {
      const { clock, ids } = makerAt(exampleMs);
      let last = '';
      let latestMs = 0;
      for (const [stepMs, count] of walk) {
        clock.ms += stepMs;
        latestMs = Math.max(latestMs, clock.ms);
        for (let index = 0; index < count; index++) {
          const id = ids.next();
          if (id <= last || !form.test(id)) assert.fail(`${id} after ${last}`);
          if (timeOf(id) < latestMs || timeOf(id) > latestMs + 12) assert.fail(`${id} at ${latestMs}`);
          last = id;
        }
      }
    });
    fc.assert(property, { numRuns: 60 });
  });

  it('makes ids of its own in each generator, and draws all random bits', () => {
    const made = new Set<string>();
    let [ones, zeros] = [0n, 0n];
    for (let generator = 0; generator < 50; generator++) {
      const { clock, ids } = makerAt(exampleMs);
      for (let index = 0; index < 1500; index++) {
        if (index % 3 === 0) clock.ms++;
        const id = ids.next();
        made.add(id);
        const bits = BigInt(`0x${id.replaceAll('-', '')}`);
        ones |= bits;
        zeros |= ~bits & (2n ** 128n - 1n);
      }
    }
    assert.equal(made.size, 75_000);
    // The counter's 12 and 10 bits and the 52 random ones are seen as 0 and as 1.
    const drawn = 0x0000_0000_0000_0fff_3fff_ffff_ffff_ffffn;
    assert.equal(ones & zeros & drawn, drawn);
  });

  it('takes clocks from 1970 to the last millisecond that 48 bits hold', () => {
    const idAt = (ms: number) => makerAt(ms).ids.next();
    assert.match(idAt(0.9), /^00000000-0000-7/);
    assert.match(idAt(2 ** 48 - 1), /^ffffffff-ffff-7/);
    for (const ms of [-1, 2 ** 48, Number.NaN, Number.POSITIVE_INFINITY]) {
      assert.throws(() => idAt(ms), { code: 'SVC_ENVELOPE_CLOCK_OUT_OF_RANGE' });
    }
    const { clock, ids } = makerAt(2 ** 48);
    assert.throws(() => ids.next());
    clock.ms = exampleMs;
    assert.match(ids.next(), form);
  });
});
