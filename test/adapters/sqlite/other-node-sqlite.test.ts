import assert from 'node:assert/strict';
import { DatabaseSync as Real, type StatementSync as RealStatement, type SQLInputValue } from 'node:sqlite';
import { describe, it } from 'mocha';
import { sqliteDrivers } from '../../../src/adapters/sqlite/sqlite-driver.ts';
import { createConnections } from '../../../src/transaction/connection.ts';

// Node's own module as later versions might be: each part that svc uses is missing, throws, or is something else, with the rest as it
// is. The application uses what is left, and the missing part by another name.

type Parts = Record<PropertyKey, unknown>;
type Method = (...args: unknown[]) => unknown;

/** The module over the real one, with classes of its own to be bent. */
function copyOfModule() {
  class StatementSync {
    readonly #real: RealStatement;
    constructor(real: RealStatement) {
      this.#real = real;
    }
    run(...values: SQLInputValue[]) {
      return this.#real.run(...values);
    }
    all(...values: SQLInputValue[]) {
      return this.#real.all(...values);
    }
    get(...values: SQLInputValue[]) {
      return this.#real.get(...values);
    }
    iterate(...values: SQLInputValue[]) {
      return this.#real.iterate(...values);
    }
  }
  class DatabaseSync {
    readonly #real: Real;
    constructor(path: string) {
      this.#real = new Real(path);
    }
    get isTransaction() {
      return this.#real.isTransaction;
    }
    exec(text: string) {
      return this.#real.exec(text);
    }
    prepare(text: string) {
      return new StatementSync(this.#real.prepare(text));
    }
    location() {
      return this.#real.location();
    }
    close() {
      return this.#real.close();
    }
    [Symbol.dispose]() {
      this.#real.close();
    }
  }
  return { DatabaseSync, StatementSync };
}

type Copy = ReturnType<typeof copyOfModule>;

function program({ DatabaseSync }: Copy): unknown[] {
  const call = (object: object, name: string, ...args: unknown[]): unknown => {
    const parts = object as Parts;
    return ((parts[name] ?? parts[`other ${name}`]) as Method).apply(object, args);
  };
  const database = new DatabaseSync(':memory:');
  call(database, 'exec', 'CREATE TABLE orders (id TEXT)');
  const prepared = (name: string, text: string, ...values: string[]): unknown =>
    call(call(database, 'prepare', text) as object, name, ...values);
  const results: unknown[] = [];
  for (const end of ['COMMIT', 'ROLLBACK']) {
    call(database, 'exec', 'BEGIN');
    prepared('run', 'INSERT INTO orders VALUES (?)', end);
    results.push(prepared('all', 'SELECT id FROM orders'), prepared('get', 'SELECT 1 AS one'));
    call(database, 'exec', end);
  }
  results.push([...(prepared('iterate', 'SELECT id FROM orders') as Iterable<unknown>)]);
  assert.throws(() => call(database, 'exec', 'COMMIT'), /no transaction is active/);
  call(database, 'close');
  return results;
}

const renamed =
  (of: keyof Copy, name: string) =>
  (copy: Copy): void => {
    const prototype = copy[of].prototype as unknown as Parts;
    prototype[`other ${name}`] = prototype[name];
    delete prototype[name];
  };
const instead =
  (name: PropertyKey, descriptor: PropertyDescriptor) =>
  ({ DatabaseSync }: Copy): void =>
    void Object.defineProperty(DatabaseSync.prototype, name, { configurable: true, ...descriptor });
const throws = (): never => {
  throw new Error('not here');
};

/** What svc says of it, once. Without it, svc does without that part. */
const others: Readonly<Record<string, readonly [bend: (copy: Copy) => void, says?: RegExp]>> = {
  nothing: [() => {}],
  ...Object.fromEntries(
    ['exec', 'prepare', 'close'].map((name) => [
      `${name}() of a database`,
      [renamed('DatabaseSync', name), new RegExp(name)] as const,
    ]),
  ),
  ...Object.fromEntries(
    ['run', 'all', 'get', 'iterate'].map((name) => [
      `${name}() of a statement`,
      [renamed('StatementSync', name), new RegExp(name)] as const,
    ]),
  ),
  'no isTransaction': [instead('isTransaction', { value: undefined }), /transactions/],
  'an isTransaction that throws': [instead('isTransaction', { get: throws }), /not here/],
  'an isTransaction that is a method': [instead('isTransaction', { value: () => false }), /transactions/],
  'no location()': [instead('location', { value: undefined })],
  'a location() that throws': [instead('location', { value: throws })],
  'no way to dispose of a database': [instead(Symbol.dispose, { value: undefined }), /dispos/],
  'no class of statements': [(copy) => void delete (copy as Partial<Copy>).StatementSync, /run/],
  'methods that nobody may change': [
    ({ DatabaseSync }) => void Object.freeze(DatabaseSync.prototype),
    /read.only/,
  ],
};

describe('the application goes on with another node:sqlite: without or with other', () => {
  for (const [title, [bend, says]] of Object.entries(others))
    it(title, () => {
      const alone = copyOfModule();
      bend(alone);
      const usual = program(copyOfModule());
      assert.deepEqual(program(alone), usual, 'the driver alone does not work with it');
      const said: string[] = [];
      const say = (error: unknown): void => void said.push((error as Error).message);
      const copy = copyOfModule();
      bend(copy);
      try {
        sqliteDrivers.nodeSqlite.patch(
          copy,
          createConnections(() => said.push('a commit that was not seen'), say),
        );
      } catch (error) {
        say(error);
      }
      assert.deepEqual(program(copy), usual);
      assert.equal(said.length, says === undefined ? 0 : 1, said.join('\n'));
      if (says !== undefined) assert.match(said[0] as string, says);
    });
});
