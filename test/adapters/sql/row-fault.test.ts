import assert from 'node:assert/strict';
import { rowFault } from '../../../src/adapters/sql/sql-store.ts';

type FoundRecord = Parameters<typeof rowFault>[0];

const payload = Buffer.from('{}');
const whole: FoundRecord = { topic: 'orders', key: 'a', headers: { a: 'b', empty: '' }, payload };

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
    it(name, () => {
      assert.match(String(rowFault({ ...whole, ...found })), says);
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
    it(`takes ${name}`, () => {
      assert.equal(rowFault({ ...whole, ...found }), undefined);
    });
});
