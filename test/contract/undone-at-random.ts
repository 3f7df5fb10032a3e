import assert from 'node:assert/strict';
import fc from 'fast-check';
import { startOwnWork } from '../../src/ground/lifecycle.ts';
import type { DriverUnderTest, TestConnection } from './driver.ts';
import { assertTrue, type Manner, manners, play } from './undone.ts';

const kinds = [
  ...['call', 'call', 'write', 'write', 'write', 'end', 'end', 'savepoint', 'savepoint', 'release'],
  ...['rollback to', 'rollback to', 'commit', 'rollback', 'fails'],
] as const;

/** What may come next, if it can: `of` chooses among the functions that run, or the savepoints that are there. */
const token = fc.record({
  kind: fc.constantFrom(...kinds),
  of: fc.nat(9),
  name: fc.constantFrom('a', 'b'),
  /** Sent by a function, or begun within one. */
  isInside: fc.boolean(),
});
type Token = typeof token extends fc.Arbitrary<infer T> ? T : never;

interface Functions {
  /** Those that run. A function that outlives a COMMIT writes no more: its event is in one transaction. */
  readonly all: RunningFunction[];
  count: number;
}

interface RunningFunction {
  readonly name: string;
  readonly outer: RunningFunction | undefined;
  writes: boolean;
}

/** Of the tokens those that can be, with a BEGIN where one is missing, and all ended in the end. */
function stepsOf(tokens: readonly Token[], isMysql: boolean, manner: Manner): string[] {
  const steps: string[] = [];
  const functions: Functions = { all: [], count: 0 };
  let savepoints: string[] = [];
  let isOpen = false;

  const send = (text: string, { of, isInside }: Token): void => {
    const by = functions.all[of % functions.all.length];
    steps.push(isInside && by?.writes ? `${by.name}: ${text}` : text);
    // One that begins a transaction has its event with the first that it commits.
    if (text === 'BEGIN' && isInside && by?.writes) steps.push(`${by.name} writes`);
  };
  const begin = (by: Token): void => {
    if (isOpen) return;
    isOpen = true;
    savepoints = [];
    send('BEGIN', by);
  };
  const end = (text: 'COMMIT' | 'ROLLBACK', by: Token): void => {
    if (!isOpen) return;
    isOpen = false;
    send(text, by);
    if (text === 'COMMIT' || manner === 'not awaited') for (const one of functions.all) one.writes = false;
  };

  /** After those that it has called. */
  const finish = (one: RunningFunction): void => {
    for (const inner of functions.all.filter(({ outer }) => outer === one)) finish(inner);
    functions.all.splice(functions.all.indexOf(one), 1);
    steps.push(`${one.name} ends`);
  };

  for (const each of tokens) {
    const { kind, of, name, isInside } = each;
    const one = functions.all[of % functions.all.length];
    const savepoint = savepoints[of % savepoints.length];
    if (kind === 'call' && functions.all.length < 4) {
      const made = String.fromCharCode('A'.charCodeAt(0) + functions.count++);
      const outer = isInside && one?.writes ? one : undefined;
      steps.push(outer === undefined ? `${made} begins` : `${outer.name} begins ${made}`);
      functions.all.push({ name: made, outer, writes: true });
    } else if (kind === 'write' && one?.writes) {
      begin(each);
      steps.push(`${one.name} writes`);
    } else if (kind === 'end' && one !== undefined) {
      finish(one);
    } else if (kind === 'savepoint') {
      begin(each);
      if (isMysql) savepoints = savepoints.filter((other) => other !== name);
      savepoints.push(name);
      send(`SAVEPOINT ${name}`, each);
    } else if (kind === 'release' && savepoint !== undefined && isOpen) {
      savepoints.length = savepoints.lastIndexOf(savepoint);
      send(`RELEASE SAVEPOINT ${savepoint}`, each);
    } else if (kind === 'rollback to' && savepoint !== undefined && isOpen) {
      savepoints.length = savepoints.lastIndexOf(savepoint) + 1;
      send(`ROLLBACK TO SAVEPOINT ${savepoint}`, each);
    } else if (kind === 'commit') end('COMMIT', each);
    else if (kind === 'rollback') end('ROLLBACK', each);
    else if (kind === 'fails' && isOpen && manner === 'awaited') steps.push('fails');
  }
  const [last] = tokens;
  if (last === undefined) return steps;
  if (last.isInside) end('COMMIT', { ...last, isInside: false });
  for (const one of [...functions.all]) if (functions.all.includes(one)) finish(one);
  end('COMMIT', { ...last, isInside: false });
  return steps;
}

/** `UNDONE_RUNS` says how many; what fails is told with its seed, which `UNDONE_SEED` repeats. Call it inside a `describe`. */
export function testUndoneAtRandom(get: () => DriverUnderTest, isMysql: boolean): void {
  for (const manner of get().isSync ? manners.slice(0, 1) : manners) {
    it(`an event is there where a row of its function is, whatever comes in whatever order, ${manner}`, async function () {
      const numRuns = Number(process.env.UNDONE_RUNS ?? 50);
      const seed = process.env.UNDONE_SEED;
      this.timeout(30_000 + numRuns * 200);
      const connection: TestConnection = await get().connect();
      const seen = { events: 0, undone: 0, refused: 0 };
      const once = async (tokens: readonly Token[]): Promise<void> => {
        const steps = stepsOf(tokens, isMysql, manner);
        await settled(() => connection.run('ROLLBACK'));
        for (const table of ['orders', 'events'])
          await startOwnWork(async () => connection.run(`DELETE FROM ${table}`));
        for (const account of await within(1_000, steps, play(get(), connection, steps, manner))) {
          assertTrue(account, steps);
          if (account.hasEvent) seen.events++;
          else if (account.end === 'rolled_back') seen.undone++;
          else seen.refused++;
        }
      };
      await fc.assert(fc.asyncProperty(fc.array(token, { maxLength: 40, size: 'max' }), once), {
        numRuns,
        ...(seed !== undefined && { seed: Number(seed) }),
      });
      await connection.close();
      const few = Object.entries(seen).filter(([, count]) => count < numRuns / 10);
      assert.deepEqual(few, [], 'what was to be tried was not');
    });
  }
}

/** A failure that shows the steps, and not a test that hangs. */
function within<T>(ms: number, steps: readonly string[], work: Promise<T>): Promise<T> {
  const late = new Promise<never>((_, reject) => {
    setTimeout(reject, ms, new Error(`never ends: ${steps.join('; ')}`)).unref();
  });
  return Promise.race([work, late]);
}

async function settled(work: () => unknown): Promise<void> {
  await Promise.allSettled([(async () => work())()]);
}
