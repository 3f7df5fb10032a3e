import assert from 'node:assert/strict';
import { createSqlStore } from '../../../src/adapters/sql/sql-store.ts';
import { runWorkAtOnce } from '../../../src/adapters/sql/statement.ts';

interface FoundRecord {
  readonly topic: unknown;
  readonly key: unknown;
  /** `undefined`: the column holds no JSON. */
  readonly headers: unknown;
  readonly payload: unknown;
}

const payload = Buffer.from('{}');
const whole: FoundRecord = { topic: 'orders', key: 'a', headers: { a: 'b', empty: '' }, payload };

/** What a store says of a row that its database returns. */
async function faultOf(found: Partial<FoundRecord>): Promise<string | undefined> {
  const { topic, key, headers, payload } = { ...whole, ...found };
  const row = {
    ...{ id: 1, event_id: 'e', aggregate_type: 'Order', aggregate_id: 'a', event_type: 'T' },
    ...{ topic, record_key: key, headers: JSON.stringify(headers) ?? 'no JSON', payload },
    ...{ shard: 0, occurred_at: 0, status: 'PENDING', retry_count: 0, last_error: null, wait_ms: 0 },
  };
  const table = 'svc_outbox_events';
  const store = createSqlStore(
    'sqlite',
    { url: 'sqlite:./a.db', table, initializeSchema: 'never' },
    { dialect: 'sqlite', table, database: 'SQLite' },
    {
      run: async (work) => runWorkAtOnce(work(), () => ({ rows: [row], count: 0 })),
      close: async () => {},
    },
  );
  const [read, ...more] = await store.read({ statuses: ['PENDING'] }, 0, 10);
  const [pending] = await store.pending([0], { upToId: 0, ids: [] }, 10);
  assert.ok(read !== undefined && pending !== undefined);
  assert.deepEqual([more, pending.fault], [[], read.fault]);
  return read.fault;
}

describe('what a stored row can be instead of a record', () => {
  const bad: readonly (readonly [name: string, found: Partial<FoundRecord>, says: RegExp])[] = [
    ['a number as a header', { headers: { a: 1 } }, /^its header "a" must be a string$/],
    ['null as a header', { headers: { a: null } }, /^its header "a" /],
    ['an object as a header', { headers: { a: {} } }, /^its header "a" /],
    ['an object with a length as a header', { headers: { a: { length: 0 } } }, /^its header "a" /],
    ['a list as a header', { headers: { a: ['b'] } }, /^its header "a" /],
    ['an empty list as a header', { headers: { a: [] } }, /^its header "a" /],
    ['true as a header', { headers: { a: true } }, /^its header "a" /],
    ['a bad header behind good ones', { headers: { a: 'b', c: 'd', e: 1 } }, /^its header "e" /],
    ['a long name', { headers: { ['n'.repeat(9_000)]: 1 } }, /^its header "n{60}" must be a string$/],
    ['a list', { headers: ['a'] }, /^its headers must be an object in JSON$/],
    ['null', { headers: null }, /^its headers /],
    ['a text', { headers: 'a' }, /^its headers /],
    ['a number', { headers: 1 }, /^its headers /],
    ['no JSON', { headers: undefined }, /^its headers /],
    ['an empty topic', { topic: '' }, /^its topic must be 1 to 249 /],
    ['a topic with a new line', { topic: 'orders\n' }, /^its topic /],
    ['a topic with an escape', { topic: '\u001b[31m' }, /^its topic /],
    ['a topic of two dots', { topic: '..' }, /^its topic /],
    ['a topic of 250 characters', { topic: 't'.repeat(250) }, /^its topic /],
    ['a topic of bytes', { topic: Buffer.from('orders') }, /^its topic /],
    ['a key of bytes', { key: Buffer.from('a') }, /^its record_key must be a string$/],
    ['no key', { key: null }, /^its record_key /],
    ['a number for a payload', { payload: 1 }, /^its payload must be bytes$/],
    ['no payload', { payload: null }, /^its payload /],
  ];
  for (const [name, found, says] of bad)
    it(name, async () => {
      assert.match(String(await faultOf(found)), says);
    });

  const good: readonly (readonly [name: string, found: Partial<FoundRecord>])[] = [
    ['what svc writes', {}],
    ['no headers', { headers: {} }],
    ['an empty key', { key: '' }],
    ['an empty payload', { payload: Buffer.alloc(0) }],
    ['a topic of 249 characters', { topic: 't'.repeat(249) }],
    ['a header called __proto__', { headers: JSON.parse('{"__proto__":"a"}') }],
  ];
  for (const [name, found] of good)
    it(`takes ${name}`, async () => {
      assert.equal(await faultOf(found), undefined);
    });
});
