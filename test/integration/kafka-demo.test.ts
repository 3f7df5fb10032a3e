import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import {
  accountLines,
  accountOf,
  type Ledger,
  problemsOf,
  type TopicEvent,
} from '../../scripts/demo-ledger.ts';
import { requiring } from '../support/requires.ts';
import { runProgram } from '../support/run-svc.ts';

const demo = resolve(import.meta.dirname, '../../scripts/demo.ts');

requiring('own-kafka', 'npm run demo -- --kafka', function () {
  this.timeout(180_000);

  it('loses nothing in an outage, and keeps the order of each key: its ledger says so', async () => {
    const { code, stdout, stderr } = await runProgram(process.execPath, [demo, '--kafka'], {
      timeout: 170_000,
    });
    assert.equal(code, 0, `${stdout}\n${stderr}`);
    const [, calls, published, backup] =
      /(\d+) calls = (\d+) published \+ (\d+) through the backup \+ 0 lost\n/.exec(stdout)?.map(Number) ?? [];
    // Seven orders of two events each, and what came behind them.
    assert.ok(Number(backup) >= 14, stdout);
    assert.equal(calls, Number(published) + Number(backup));
    assert.match(
      stdout,
      new RegExp(`${calls} events over .*: 0 twice, 0 out of order, 0 with personal data`),
    );
  });
});

describe('ledger of the demo', () => {
  const ledger: Ledger = {
    ...{ calls: 4, published: 2, backup: 2, drained: 2, refused: 0, lost: 0, inFlight: 0, waiting: 0 },
  };
  const event = (id: number, key = 'k', value = '{}'): TopicEvent => ({ id: String(id), key, value });
  const sound = [event(1), event(2), event(3), event(4, 'other')];
  const backedUp = new Set(['2', '3']);

  it('is content with all events in their order, and sums them up', () => {
    const account = accountOf(sound, backedUp, ['Ada']);
    assert.deepEqual(problemsOf(ledger, account), []);
    assert.deepEqual(accountLines(ledger, account), [
      '4 calls = 2 published + 2 through the backup + 0 lost',
      '4 events over 2 keys in the topics: 0 twice, 0 out of order, 0 with personal data in clear',
    ]);
  });

  it('names an event behind a later one of its key, one that is there twice, one that is not there, and one in clear', () => {
    const cases: [TopicEvent[], string[]][] = [
      [[event(1), event(3), event(2), event(4, 'other')], ['1 events are behind later ones of their key']],
      [[event(1), event(4, 'other'), event(2), event(3)], []],
      [[...sound, event(1)], ['1 events are in Kafka twice']],
      [[event(1, 'k', '{"name":"Ada"}'), ...sound.slice(1)], ['1 events hold personal data in clear']],
      [
        [event(1), event(2), event(4, 'other')],
        [
          'Kafka holds 3 different events, not 4',
          '1 events of the backup are not in Kafka',
          '1 events of the backup are in Kafka, not 2',
        ],
      ],
    ];
    for (const [found, problems] of cases)
      assert.deepEqual(problemsOf(ledger, accountOf(found, backedUp, ['Ada'])), problems);
  });
});
