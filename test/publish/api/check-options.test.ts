import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { checkPublishOptions } from '../../../src/publish/api/check-options.ts';

const secret = 'john@example.com';

describe('options of publish()', () => {
  it('makes right what can be: numbers as keys, null as left out', () => {
    assert.deepEqual(checkPublishOptions(undefined), {});
    assert.deepEqual(checkPublishOptions(null), {});
    assert.deepEqual(checkPublishOptions({ key: 7 }), { key: '7' });
    assert.deepEqual(checkPublishOptions({ key: 12345678901234567890n }), { key: '12345678901234567890' });
    assert.deepEqual(checkPublishOptions({ key: true, topic: null, severity: undefined }), { key: 'true' });
    assert.deepEqual(checkPublishOptions({ key: '' }), { key: '' });
    const longest = 2n ** 16_384n - 1n;
    assert.deepEqual(checkPublishOptions({ key: longest }), { key: String(longest) });
    const { mistake } = checkPublishOptions({ key: longest + 1n });
    assert.equal(mistake?.message, 'publish(): key must be a string, a number or a boolean');
    const all = { severity: 'WARN', topic: 'a.b_c-1', eventType: 'T', key: 'k', timeoutMs: 1 };
    assert.deepEqual(checkPublishOptions(all), all);
    assert.deepEqual(checkPublishOptions({ timeoutMs: 2_147_483_647 }), { timeoutMs: 2_147_483_647 });
  });

  const topic =
    'topic must be a topic name that Kafka accepts: 1 to 249 letters, digits, ".", "_" or "-", and neither "." nor ".."';
  const known = 'severity, topic, eventType, key, headers, timeoutMs';
  for (const [options, message] of [
    [{ severity: 'LOUD', eventType: 5 }, 'severity must be one of INFO, WARN, ERROR, CRITICAL'],
    [{ eventType: 5 }, 'eventType must be a non-empty string'],
    [{ eventType: ' ' }, 'eventType must be a non-empty string'],
    [{ topic: 'bad topic' }, topic],
    [{ topic: ['orders'] }, topic],
    [{ topic: 't'.repeat(250) }, topic],
    [{ key: { id: 7 } }, 'key must be a string, a number or a boolean'],
    [{ key: Number.NaN }, 'key must be a string, a number or a boolean'],
    [{ key: Symbol(secret) }, 'key must be a string, a number or a boolean'],
    [{ timeoutMs: 0 }, 'timeoutMs must be a number of milliseconds from 1 to 2147483647'],
    [{ timeoutMs: 2_147_483_648 }, 'timeoutMs must be a number of milliseconds from 1 to 2147483647'],
    [{ timeoutMs: '5' }, 'timeoutMs must be a number of milliseconds from 1 to 2147483647'],
    [{ eventtype: 'T' }, 'unknown option eventtype: did you mean eventType?'],
    [{ whatIsThat: {} }, `unknown option whatIsThat; there are ${known}`],
    [{ [secret]: 1 }, `there is an unknown option; there are ${known}`],
    ['ORDER_CREATED', 'the options must be a plain object of names and values'],
    [['ORDER_CREATED'], 'the options must be a plain object of names and values'],
  ] as const) {
    it(`refuses ${inspect(options)}`, () => {
      const { mistake } = checkPublishOptions(options);
      assert.deepEqual([mistake?.code, mistake?.message], ['SVC_PUBLISH_OPTIONS', `publish(): ${message}`]);
    });
  }

  it('says nothing of what a hostile object throws', () => {
    const throwing = () => {
      throw new Error(secret);
    };
    for (const hostile of [
      Object.defineProperty({}, 'key', { get: throwing, enumerable: true }),
      new Proxy({}, { ownKeys: throwing }),
    ])
      assert.equal(checkPublishOptions(hostile).mistake?.message, 'publish(): the options cannot be read');
  });
});
