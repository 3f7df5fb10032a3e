import assert from 'node:assert/strict';
import { longestOutboxText } from '../../src/ground/event-fields.ts';
import { checkRow } from '../../src/outbox/outbox-row.ts';
import { outboxRow } from '../cli/outbox-folder.ts';

describe('texts of a row', () => {
  for (const [field, name] of [
    ['key', 'record key'],
    ['eventType', 'event type'],
    ['aggregateType', 'aggregate type'],
    ['aggregateId', 'aggregate id'],
    ['topic', 'topic'],
  ] as const)
    it(`${name}: 65,535 bytes are taken, one more is not, and its text is not told`, () => {
      assert.equal(longestOutboxText, 65_535);
      for (const [character, max] of [
        ['x', 65_535],
        ['é', 32_767],
        ['€', 21_845],
        ['𝄞', 16_383],
      ] as const) {
        checkRow(outboxRow({ [field]: character.repeat(max) }));
        assert.throws(() => checkRow(outboxRow({ [field]: character.repeat(max + 1) })), {
          code: 'SVC_OUTBOX_TOO_LONG',
          message: `the event is not stored: its ${name} has more than 65535 bytes in UTF-8, the limit of the outbox table; use a shorter ${name}`,
        });
      }
    });

  it('NUL is refused for PostgreSQL, which has no text with it, and by the name of the field', () => {
    const row = outboxRow({ aggregateId: 'a\0b' });
    for (const dialect of [undefined, 'mysql', 'sqlite'] as const) checkRow(row, dialect);
    assert.throws(() => checkRow(row, 'postgres'), {
      code: 'SVC_OUTBOX_INSERT',
      message: /its aggregate id has the character NUL \(U\+0000\)/,
    });
  });
});
