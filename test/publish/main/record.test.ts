import assert from 'node:assert/strict';
import fc from 'fast-check';
import { encodeBatch } from '../../../src/adapters/kafka/session.ts';
import { bytesOf, toRecord } from '../../../src/publish/main/queue.ts';
import { EventValue, jsonForm } from '../../../src/serialize/serializer.ts';
import { event } from '../fake-cluster.ts';

const atMs = Date.UTC(2026, 0, 2);
const text = fc.oneof(fc.string({ unit: 'binary' }), fc.string({ unit: 'grapheme' }), fc.string());

describe('the record of an event', () => {
  it('is its text with the time of the hand-over, in bytes that are made once', () => {
    const record = toRecord(event('1', { after: '","n":"é漢😀"}' }), atMs);
    const value = '{"eventId":"1","publishedAt":"2026-01-02T00:00:00.000Z","n":"é漢😀"}';
    assert.equal(record.value.toString(), value);
    assert.equal(record.value, record.value);
    assert.equal(record.timestamp, atMs);
  });

  it('has the same bytes, and as many as it says, wherever they are written', () => {
    fc.assert(
      fc.property(text, text, fc.nat(50), (before, after, at) => {
        const pieces = new EventValue(jsonForm, before, [after, before, '}']);
        const record = toRecord({ ...event('1'), value: pieces }, atMs);
        const texts = [before, '2026-01-02T00:00:00.000Z', after, before, '}'];
        const expected = Buffer.concat(texts.map((piece) => Buffer.from(piece)));
        assert.equal(record.valueBytes, expected.length);
        assert.deepEqual(record.value, expected);
        const around = Buffer.alloc(at + expected.length + 1, '~');
        record.writeValue?.(around, at);
        assert.equal(
          around.toString('hex'),
          Buffer.concat([Buffer.alloc(at, '~'), expected, Buffer.from('~')]).toString('hex'),
        );
      }),
    );
  });

  it('makes the same batch as a record that is bytes already', async () => {
    const events = ['1', '2', '3'].map((id) => event(id, { after: `","n":"${'é😀'.repeat(100)}"}` }));
    const lazy = events.map((one) => toRecord(one, atMs));
    const made = events.map((one) => {
      const { key, headers, timestamp, value } = toRecord(one, atMs);
      return { key, headers, timestamp, value };
    });
    assert.deepEqual(await encodeBatch(lazy), await encodeBatch(made));
  });

  for (const polluted of ['text', 7, () => 1]) {
    it(`has no header that somebody put on the prototype of all objects: a ${typeof polluted}`, async () => {
      const one = event('1');
      const [bytes, batch] = [bytesOf(one), await encodeBatch([toRecord(one, atMs)])];
      const prototype = Object.prototype as { polluted?: unknown };
      prototype.polluted = polluted;
      try {
        assert.equal(bytesOf(one), bytes);
        const again = await encodeBatch([toRecord(one, atMs)]);
        assert.equal(again.toString('hex'), batch.toString('hex'));
      } finally {
        delete prototype.polluted;
      }
    });
  }
});
