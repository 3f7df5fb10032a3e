import assert from 'node:assert/strict';
import { judge } from '../../src/outbox/outbox-health.ts';
import type { Senders } from '../../src/outbox/outbox-store.ts';

type Settings = Parameters<typeof judge>[0];

const relaying = {
  dialect: 'postgres',
  table: 'app.events',
  publisherEnabled: true,
  retentionDays: 7,
} as const;
const erasing = { ...relaying, publisherEnabled: false, retentionDays: 0 };
const alone = { ...relaying, publisherEnabled: false };
const plain: Senders = { erases: false, isRouted: false, log: 'none', relays: 0, oldestMs: null };
const debezium: Senders = { ...plain, erases: true, isRouted: true, log: 'read' };

describe('who sends the rows of an outbox', () => {
  const refused: readonly [string, Settings, Senders, RegExp | undefined][] = [
    ['a relay on a plain table', relaying, plain, undefined],
    ['a relay on columns of Debezium', relaying, { ...plain, isRouted: true }, undefined],
    [
      'a relay, and the trigger',
      relaying,
      debezium,
      /Run DROP TRIGGER "events_erase" ON "app"\."events", or set both/,
    ],
    [
      'a relay that keeps nothing, and the trigger',
      { ...relaying, retentionDays: 0 },
      debezium,
      /DROP TRIGGER/,
    ],
    ['svc relay, and the trigger', alone, debezium, /DROP TRIGGER/],
    ['Debezium, and its trigger', erasing, debezium, undefined],
    ['Debezium that is away, and its trigger', erasing, { ...debezium, log: 'kept' }, undefined],
    ['Debezium without a slot', erasing, { ...debezium, log: 'none' }, /no logical replication slot/],
    ['Debezium before its trigger', erasing, { ...plain, isRouted: true }, undefined],
    [
      'Debezium on MySQL',
      { ...erasing, dialect: 'mysql' },
      { ...plain, isRouted: true, log: 'kept' },
      undefined,
    ],
    [
      'Debezium on MySQL without its columns',
      { ...erasing, dialect: 'mysql' },
      { ...plain, log: 'kept' },
      /no column debezium_topic/,
    ],
    [
      'Debezium on MySQL without a log',
      { ...erasing, dialect: 'mysql' },
      { ...plain, isRouted: true },
      /no binary log/,
    ],
    ['SQLite, which has no Debezium', { ...erasing, dialect: 'sqlite' }, plain, undefined],
  ];
  for (const [what, settings, senders, says] of refused)
    it(`${what}: ${says === undefined ? 'events are stored' : 'events would be lost'}`, () => {
      const { refusal } = judge(settings, senders, false);
      assert.equal(refusal?.code, says && 'SVC_OUTBOX_CONTRADICTION');
      assert.match(refusal?.message ?? '', says ?? /^$/);
    });

  const waiting = { ...plain, oldestMs: 60_001 };
  const remarked: readonly [string, Settings, Senders, RegExp | undefined][] = [
    ['rows that wait for a minute', alone, { ...plain, oldestMs: 60_000 }, undefined],
    ['rows that wait for longer, and no relay', alone, waiting, /wait for 1 min, but no relay of it runs/],
    ['rows that wait for two hours', alone, { ...plain, oldestMs: 7_200_000 }, /wait for 2 h/],
    ['rows that wait for longer beside a relay', alone, { ...waiting, relays: 1 }, undefined],
    ['rows that a connector sends', alone, { ...waiting, isRouted: true, log: 'read' }, undefined],
    ['rows that no connector reads', alone, { ...waiting, isRouted: true, log: 'kept' }, /Kafka Connect/],
    [
      'rows in MySQL that somebody may read',
      { ...alone, dialect: 'mysql' },
      { ...waiting, isRouted: true },
      undefined,
    ],
    ['Debezium that reads', erasing, debezium, undefined],
    ['Debezium that is away', erasing, { ...debezium, log: 'kept' }, /no connector reads the log/],
    [
      'Debezium before its trigger',
      erasing,
      { ...plain, isRouted: true },
      /keeps its rows: run the output of/,
    ],
    ['Debezium beside relays', erasing, { ...debezium, relays: 2 }, /relays send rows too/],
    ['SQLite, which has no Debezium', { ...erasing, dialect: 'sqlite' }, { ...plain, relays: 1 }, undefined],
  ];
  for (const [what, settings, senders, says] of remarked)
    it(`${what}: ${says === undefined ? 'nothing to say' : 'somebody has to look'}`, () => {
      assert.match(judge(settings, senders, false).remark ?? '', says ?? /^$/);
    });

  it('a process with a relay of its own says nothing of rows that wait', () => {
    assert.equal(judge(relaying, waiting, true).remark, undefined);
  });
});
