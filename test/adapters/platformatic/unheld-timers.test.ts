import assert from 'node:assert/strict';
import { withUnheldTimers } from '../../../src/adapters/platformatic/unheld-timers.ts';

describe('timers that keep no process alive', () => {
  const usual = globalThis.setTimeout;
  afterEach(() => {
    Object.defineProperty(globalThis, 'setTimeout', { value: usual, writable: true, configurable: true });
  });

  const heldOnes = (work: (make: () => void) => void): boolean[] => {
    const made: NodeJS.Timeout[] = [];
    work(() => void made.push(setTimeout(() => {}, 1_000)));
    for (const timer of made) clearTimeout(timer);
    return made.map((timer) => timer.hasRef());
  };

  it('are those that the work makes, and no others, also where it fails', () => {
    assert.deepEqual(
      heldOnes((make) => withUnheldTimers(make)),
      [false],
    );
    assert.throws(() =>
      withUnheldTimers(() => {
        throw new Error('it fails');
      }),
    );
    assert.equal(globalThis.setTimeout, usual);
  });

  it('leave alone what the work itself has put in', () => {
    const other = (() => {}) as unknown as typeof usual;
    withUnheldTimers(() => {
      globalThis.setTimeout = other;
    });
    assert.equal(globalThis.setTimeout, other);
  });

  it('are as they are where nobody may change setTimeout, and svc says so once', () => {
    Object.defineProperty(globalThis, 'setTimeout', { value: usual, writable: false, configurable: true });
    const lines: string[] = [];
    for (let call = 0; call < 2; call++) {
      const held = heldOnes((make) => withUnheldTimers(make, (line) => lines.push(line)));
      assert.deepEqual(held, [true]);
    }
    assert.equal(lines.length, 1);
  });
});
