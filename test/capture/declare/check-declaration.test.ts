import assert from 'node:assert/strict';
import type { PublishEventOptions } from '../../../src/capture/declare/declarations.ts';
import { planOfDeclaration } from '../../../src/capture/declare/make-plan.ts';
import { loadConfig } from '../../../src/config/read/load.ts';

const { config } = loadConfig({ cwd: import.meta.dirname, env: {}, code: {} });
const checkDeclaration = (options: PublishEventOptions) =>
  planOfDeclaration({ origin: 'publishEvent', name: 'create', options, parameterNames: [] }, config);

describe('fields of a target in code', () => {
  it('takes what a target can have', () => {
    checkDeclaration({});
    checkDeclaration({
      ...{ eventType: 'T', severity: 'ERROR', topic: 'orders', payload: '#result', payloadIndex: 0 },
      ...{ key: () => 'k', pii: { type: 'EMAIL' }, phase: 'AFTER', failOnError: true, afterCommit: true },
    });
    checkDeclaration({ eventType: undefined, topic: undefined });
  });

  for (const [fields, message] of [
    [{ eventType: 5 }, 'eventType must be a string'],
    [{ severity: 'LOUD' }, 'severity must be one of INFO, WARN, ERROR, CRITICAL'],
    [
      { topic: 'bad topic' },
      'topic must be a topic name that Kafka accepts: 1 to 249 letters, digits, ".", "_" or "-", and neither "." nor ".."',
    ],
    [{ payload: { id: 7 } }, 'payload must be an expression or a function'],
    [{ key: 7 }, 'key must be an expression or a function'],
    [{ phase: 'LATER' }, 'phase must be one of BEFORE, AFTER_RETURNING, AFTER'],
    [{ callback: 'first' }, 'callback must be last'],
    [{ params: ['id'] }, /^unknown option params; there are eventType, /],
    [{ failOnError: 'yes' }, 'failOnError must be true or false'],
    [{ afterCommit: 1 }, 'afterCommit must be true or false'],
    [{ eventtype: 'T' }, 'unknown option eventtype: did you mean eventType?'],
    [{ whatIsThat: 'T' }, /^unknown option whatIsThat; there are eventType, /],
  ] as const) {
    it(`refuses ${Object.keys(fields)}: ${message}`, () => {
      assert.throws(() => checkDeclaration(fields as never), { code: 'SVC_CAPTURE_RULE', message });
    });
  }

  for (const [what, given] of Object.entries({
    'a text': 'ORDER_CREATED',
    'a function, where the arguments are swapped': () => 1,
    'a list': ['ORDER_CREATED'],
    'a Map': new Map(),
    null: null,
  }))
    it(`refuses ${what}, and says where options stand`, () => {
      const message = 'the options must be a plain object of names and values, and come first';
      assert.throws(() => checkDeclaration(given as never), { code: 'SVC_CAPTURE_RULE', message });
    });
});
