import assert from 'node:assert/strict';
import { type Outcome, outcomes } from '../../src/observe/outcomes.ts';
import { type Evidence, settleAccounts } from './account.ts';
import type { FoundRecord } from './read-topics.ts';

const record = (number: number, rest: Partial<FoundRecord> = {}): FoundRecord => ({
  ...{ topic: 't', partition: 0, appendedAt: 1_000 + number, eventId: `id-${number}`, key: 'k0', number },
  ...rest,
});

const ledger = (counts: Partial<Evidence['ledger']>): Evidence['ledger'] => ({
  ...(Object.fromEntries(outcomes.map((outcome) => [outcome, 0])) as Record<Outcome, number>),
  ...{ calls: 4, retries: 0, inFlight: 0 },
  ...counts,
});

/** Four calls: two published, one in the dead letter topic, one in the backup and drained. */
const sound: Evidence = {
  numbers: [4],
  ledger: ledger({ published: 2, dlq: 1, backup: 1 }),
  topic: [record(0), record(1), record(3)],
  dlq: [record(2)],
  backup: [record(3)],
  drained: [record(3)],
  loadFrom: 1_000,
  loadUntil: 1_010,
};

describe('accounts of the fault suite', () => {
  const problems = (change: Partial<Evidence>): readonly string[] =>
    settleAccounts({ ...sound, ...change }).problems;

  it('is content when every event is where the ledger says', () => {
    assert.deepEqual(settleAccounts(sound), {
      problems: [],
      duplicates: 0,
      ownDuplicates: 0,
      longestPauseMs: 7,
    });
  });

  it('counts repetitions, and takes their first place for the order', () => {
    const topic = [record(0), record(1), record(0), record(1), record(3)];
    const { duplicates, ownDuplicates } = settleAccounts({ ...sound, topic: [...topic, record(3)] });
    assert.deepEqual([problems({ topic }), duplicates, ownDuplicates], [[], 3, 2]);
  });

  it('says what is missing, where there is too much, and what is out of order', () => {
    const cases: [Partial<Evidence>, string[]][] = [
      [
        { topic: [record(0), record(3)] },
        ['published events found in the topic: 1, not 2', 'events found nowhere: 1, not 0'],
      ],
      [{ dlq: [] }, ['events in the dead letter topic alone: 0, not 1', 'events found nowhere: 1, not 0']],
      [{ backup: [] }, ['events in the backup: 0, not 1', 'published events found in the topic: 3, not 2']],
      [{ topic: [record(0), record(1)] }, ['events of the backup missing in the topic: 1, not 0']],
      [{ topic: [record(1), record(0), record(3)] }, ['1 events out of order: k0/0 behind k0/1']],
      [{ topic: [...sound.topic, record(9, { eventId: 'id-9' })] }, ['events that nobody made: 1, not 0']],
      [
        { topic: [...sound.topic, record(0, { eventId: 'other' })] },
        ['events under more than one id: 1, not 0'],
      ],
      [
        { ledger: ledger({ published: 3, dlq: 1 }) },
        ['events in the backup: 1, not 0', 'published events found in the topic: 2, not 3'],
      ],
      [
        { ledger: ledger({ calls: 3, published: 1, dlq: 1, backup: 1 }) },
        [
          'calls that svc counted: 3, not 4',
          'sum of the outcomes: 3, not 4',
          'published events found in the topic: 2, not 1',
        ],
      ],
      [
        { ledger: ledger({ published: 1, dlq: 1, backup: 1, refused: 1 }) },
        ['refused: 1, not 0', 'published events found in the topic: 2, not 1'],
      ],
    ];
    for (const [change, expected] of cases) assert.deepEqual(problems(change), expected);
  });

  it('lets a lost event be in the topic after all, for its outcome was unknown', () => {
    const counts = ledger({ published: 1, dlq: 1, backup: 1, lost: 1 });
    assert.deepEqual(problems({ ledger: counts }), []);
    assert.deepEqual(problems({ ledger: counts, topic: [record(0), record(3)] }), []);
  });

  it('sees an event of the backup behind a later one that went straight, and not a dead letter that was sent again', () => {
    const late = {
      ledger: ledger({ published: 3, backup: 1 }),
      dlq: [],
      backup: [record(1)],
      drained: [record(1)],
    };
    const topic = [record(0), record(2), record(3), record(1)];
    assert.deepEqual(problems({ ...late, topic }), ['1 events out of order: k0/1 behind k0/3']);
    assert.deepEqual(problems({ ...late, topic: [record(0), record(1), record(2), record(3)] }), []);
    assert.deepEqual(problems({ topic: [...sound.topic, record(2)] }), []);
    // The dead letter topic did not take it either.
    const isRefused = [{ ...record(1), isRefused: true }];
    assert.deepEqual(problems({ ...late, topic, backup: isRefused }), []);
  });
});
