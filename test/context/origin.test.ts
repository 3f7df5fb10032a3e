import assert from 'node:assert/strict';
import type { IncomingHttpHeaders } from 'node:http';
import { context, propagation } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { type ContextOptions, contextStorage, createScope } from '../../src/context/context-store.ts';
import { createOriginReader } from '../../src/context/origin.ts';
import { runWithContext, setContext } from '../../src/context/request.ts';
import { isOwnWork } from '../../src/ground/lifecycle.ts';
import type { Logger } from '../../src/observe/logger.ts';
import { useLogger } from '../support/log.ts';

function inRequest<T>(headers: IncomingHttpHeaders, fn: () => T, request: object = {}): T {
  return contextStorage().run({ scope: createScope(request, headers, '192.0.2.1'), added: null }, fn);
}

function userOf(
  userId: ContextOptions['userId'],
  headers: IncomingHttpHeaders,
  request?: object,
): string | null {
  const readOrigin = createOriginReader({ userId });
  return inRequest(headers, () => readOrigin().userId, request);
}

describe('createOriginReader', () => {
  it('gives the same empty answer outside of any context', () => {
    const readOrigin = createOriginReader({ userId: ['header:x-user', 'request:user.id'] });
    assert.equal(readOrigin(), readOrigin());
    assert.deepEqual(new Set(Object.values(readOrigin())), new Set([null]));
  });

  it('gives one answer for the events of a request, until something of it changes', () => {
    const readOrigin = createOriginReader({ userId: 'header:x-user', baggageTags: ['tenant'] });
    const untagged = createOriginReader({ userId: 'header:x-user' });
    const headers = { 'x-user': 'u', 'x-request-id': 'r', baggage: 'tenant=a' };
    inRequest(headers, () => {
      const first = untagged();
      assert.equal(untagged(), first);
      for (const change of [
        { userId: 'v' },
        { sessionId: 's' },
        { correlationId: 'c' },
        { tags: { a: 'b' } },
      ]) {
        const before = untagged();
        setContext(change);
        assert.notEqual(untagged(), before);
        assert.deepEqual(untagged(), { ...before, ...change });
      }
      assert.deepEqual(readOrigin().tags, { tenant: 'a', a: 'b' });
    });
    assert.equal(
      contextStorage().run({ scope: createScope({}, headers, '192.0.2.2'), added: null }, untagged).clientIp,
      '192.0.2.2',
    );
  });

  it('takes the first correlation header that is usable', () => {
    const readOrigin = createOriginReader();
    const id = (headers: IncomingHttpHeaders) => inRequest(headers, () => readOrigin().correlationId);
    assert.equal(id({ 'x-request-id': 'r', 'x-correlation-id': 'c' }), 'c');
    assert.equal(id({ 'x-request-id': ' r ', 'x-correlation-id': '' }), 'r');
    assert.equal(id({ 'x-request-id': 'r', 'x-correlation-id': 'c\u0001' }), 'r');
    assert.equal(id({ 'x-request-id': 'é' }), null);
    assert.equal(id({ 'x-request-id': 'x'.repeat(256) }), 'x'.repeat(256));
    assert.equal(id({ 'x-request-id': 'x'.repeat(257) }), null);
    assert.equal(id({}), null);
  });

  it('takes the headers that are configured, in their order, in any case', () => {
    const readOrigin = createOriginReader({ correlationHeaders: ['X-Trace', 'x-b'] });
    const headers = { 'x-request-id': 'r', 'x-b': 'b', 'x-trace': 't' };
    assert.equal(
      inRequest(headers, () => readOrigin().correlationId),
      't',
    );
    assert.throws(() => createOriginReader({ correlationHeaders: ['x y'] }), {
      code: 'SVC_CONTEXT_BAD_HEADER_NAME',
    });
  });

  it('makes one id per request where told to, and none outside of requests', () => {
    const readOrigin = createOriginReader({ generateCorrelationId: true });
    const ids = () => [
      readOrigin().correlationId,
      runWithContext({ userId: 'u' }, () => readOrigin().correlationId),
    ];
    const [first, second] = inRequest({}, ids);
    assert.match(first ?? '', /^[0-9a-f-]{36}$/);
    assert.equal(second, first);
    assert.notEqual(inRequest({}, ids)[0], first);
    assert.deepEqual(runWithContext({}, ids), [null, null]);
  });

  it('lets the application have the last word, also for "none"', () => {
    const readOrigin = createOriginReader({ userId: 'header:x-user', sessionId: 'header:x-session' });
    inRequest({ 'x-user': 'u', 'x-session': 's', 'x-request-id': 'r' }, () => {
      setContext({ userId: 'mine', sessionId: null });
      const origin = readOrigin();
      assert.deepEqual([origin.userId, origin.sessionId, origin.correlationId], ['mine', null, 'r']);
      setContext({ correlationId: 'c' });
      assert.equal(readOrigin().correlationId, 'c');
    });
  });
});

describe('actor sources', () => {
  it('header: reads a header, within bounds', () => {
    assert.equal(userOf('header:X-User-Id', { 'x-user-id': 'u' }), 'u');
    assert.equal(userOf('header:x-user-id', { 'x-user-id': 'u\u007f' }), null);
    assert.equal(userOf('header:x-user-id', {}), null);
  });

  it('request: reads a property path of the request, with getters of classes', () => {
    class User {
      get id() {
        return 7;
      }
    }
    assert.equal(userOf('request:user.id', {}, { user: { id: 'u' } }), 'u');
    assert.equal(userOf('request:user.id', {}, { user: new User() }), '7');
    assert.equal(userOf('request:auth.token.sub', {}, { auth: { token: { sub: 12n } } }), '12');
  });

  it('request: is null for whatever is missing, throws, is no text, or is too long', () => {
    const throwing = Object.defineProperty({}, 'user', {
      get() {
        throw new Error('secret');
      },
    });
    const requests = [
      {},
      { user: null },
      { user: 'text' },
      { user: { id: {} } },
      { user: { id: () => 'u' } },
      throwing,
    ];
    for (const request of requests) assert.equal(userOf('request:user.id', {}, request), null);
    assert.equal(userOf('request:user.id', {}, { user: { id: 'x'.repeat(256) } }), 'x'.repeat(256));
    for (const id of ['x'.repeat(257), 'a\nb', '\u202etxt', '']) {
      assert.equal(userOf('request:user.id', {}, { user: { id } }), null);
    }
  });

  it('request: sees what the application puts there later', () => {
    const readOrigin = createOriginReader({ userId: 'request:user.id' });
    const request: { user?: object } = {};
    inRequest(
      {},
      () => {
        assert.equal(readOrigin().userId, null);
        request.user = { id: 'late' };
        assert.equal(readOrigin().userId, 'late');
      },
      request,
    );
  });

  it('are asked in order', () => {
    const sources = ['request:user.id', 'header:x-user'] as const;
    assert.equal(userOf(sources, { 'x-user': 'h' }, { user: { id: 'r' } }), 'r');
    assert.equal(userOf(sources, { 'x-user': 'h' }, {}), 'h');
    assert.equal(userOf([], { 'x-user': 'h' }, {}), null);
  });

  it('can be a function, that sees the request, is never captured, and may fail', () => {
    const lines: string[] = [];
    const logger = { warn: (line: string) => lines.push(line) } as unknown as Logger;
    const own: boolean[] = [];
    const userId = (request: unknown) => {
      own.push(isOwnWork());
      if (request === undefined) throw new Error('secret');
      return (request as { id: number }).id;
    };
    useLogger(logger);
    const readOrigin = createOriginReader({ userId });
    const asked = inRequest({}, () => readOrigin().userId, { id: 3 });
    assert.equal(asked, '3');
    assert.equal(readOrigin().userId, null);
    assert.equal(readOrigin().userId, null);
    assert.deepEqual(own, [true, true, true]);
    assert.deepEqual(lines, ['the function that provides userId threw an error: events carry null']);
    assert.equal(createOriginReader({ sessionId: () => 's' })().sessionId, 's');
  });

  it('that nobody can read are refused at start', () => {
    for (const source of [
      '',
      'x-user',
      'cookie:a',
      'request:',
      'request:a..b',
      'request:a.__proto__',
      'baggage:',
    ]) {
      assert.throws(() => createOriginReader({ userId: source }), {
        code: 'SVC_CONTEXT_BAD_ACTOR_SOURCE',
        message: `userId: "${source}" is not header:<name>, baggage:<name> or request:<property path>`,
      });
    }
    assert.throws(() => createOriginReader({ sessionId: 'header:a b' }), {
      code: 'SVC_CONTEXT_BAD_HEADER_NAME',
    });
  });
});

describe('baggage', () => {
  const options = { userId: 'baggage:user.id', baggageTags: ['tenant', 'plan', '__proto__'] };
  const readOrigin = createOriginReader(options);
  const header = 'x=1, user.id = u%20%C3%A9;p=1 ,tenant=t;q, tenant=second,plan=%zz,__proto__=p';

  it('comes from the header of the request without OpenTelemetry', () => {
    const origin = inRequest({ baggage: header }, () => readOrigin());
    assert.equal(origin.userId, 'u é');
    assert.deepEqual(origin.tags, { tenant: 't' });
    assert.equal(inRequest({ baggage: 'nonsense,,=,plan' }, () => readOrigin()).tags, null);
    assert.equal(inRequest({}, () => readOrigin()).tags, null);
  });

  it('gives way to tags of the application', () => {
    const tags = inRequest({ baggage: header }, () =>
      runWithContext({ tags: { tenant: 'mine', other: 'o' } }, () => readOrigin().tags),
    );
    assert.deepEqual(tags, { tenant: 'mine', other: 'o' });
  });

  it('comes from the active context with OpenTelemetry, outside of requests too', () => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    try {
      const baggage = propagation.createBaggage({
        'user.id': { value: 'b' },
        tenant: { value: 'x'.repeat(257) },
        plan: { value: 'p' },
      });
      const carrying = propagation.setBaggage(context.active(), baggage);
      context.with(carrying, () => {
        const origin = inRequest({ baggage: header }, () => readOrigin());
        assert.deepEqual([origin.userId, origin.tags], ['b', { plan: 'p' }]);
      });
      assert.equal(readOrigin(carrying).userId, 'b');
      assert.equal(readOrigin().userId, null);
    } finally {
      context.disable();
    }
  });
});
