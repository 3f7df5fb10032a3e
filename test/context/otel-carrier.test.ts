import assert from 'node:assert/strict';
import { AsyncResource } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import { type ContextManager, context, createContextKey, ROOT_CONTEXT } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { contextStorage, createScope } from '../../src/context/context-store.ts';
import { createOriginReader } from '../../src/context/origin.ts';
import { installRequestContext, runWithContext, setContext } from '../../src/context/request.ts';

const readOrigin = createOriginReader();
const user = () => readOrigin().userId;
const spanLike = createContextKey('what an instrumentation adds');

/** As a request of an HTTP server, with an instrumentation that starts from nothing. */
function inRequest<T>(userId: string, work: () => T): T {
  return new AsyncResource('REQUEST').runInAsyncScope(() => {
    const added = { userId, sessionId: null, correlationId: null, tags: null };
    contextStorage().enterWith({ scope: createScope({}, {}, undefined), added });
    return context.with(ROOT_CONTEXT.setValue(spanLike, userId), work);
  });
}

/** OpenTelemetry does not report a new manager: svc looks for one where a store is entered. */
function enterAStore(): void {
  runWithContext({}, () => {});
}

describe("svc's context in that of OpenTelemetry", () => {
  let end = () => {};
  let elsewhere: AsyncResource;
  beforeEach(() => {
    end = installRequestContext();
    assert.ok(context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()));
    enterAStore();
    // A connection of a driver: what it calls back is called in the context of whoever opened it.
    inRequest('opener', () => {
      elsewhere = new AsyncResource('SOCKET');
    });
  });
  afterEach(() => {
    context.disable();
    end();
  });
  const fromSocket = <T>(callback: () => T): T => elsewhere.runInAsyncScope(callback);

  it('goes where a callback is bound to', () => {
    const callbacks = ['alice', 'bob'].map((name) =>
      inRequest(name, () => context.bind(context.active(), user)),
    );
    assert.deepEqual(
      callbacks.map((callback) => fromSocket(callback)),
      ['alice', 'bob'],
    );
    assert.equal(fromSocket(user), 'opener');
  });

  it('goes where a context is carried by hand, or a listener of an emitter', () => {
    const emitter = new EventEmitter();
    const active = inRequest('alice', () => {
      context.bind(context.active(), emitter).on('done', () => seen.push(user()));
      return context.active();
    });
    const seen: unknown[] = [];
    fromSocket(() => {
      context.with(active, () => seen.push(user()));
      emitter.emit('done');
      seen.push(user());
    });
    assert.deepEqual(seen, ['alice', 'alice', 'opener']);
  });

  it('is nobody where a callback was bound outside of any request', () => {
    const callback = context.bind(context.active(), user);
    assert.equal(fromSocket(callback), null);
    assert.equal(fromSocket(context.with(ROOT_CONTEXT, () => context.bind(context.active(), user))), null);
  });

  it('is the newer one of svc, where OpenTelemetry has the same context as before', () => {
    const derived = () => context.active().setValue(spanLike, 'child');
    inRequest('alice', () => {
      const request = context.active();
      runWithContext({ userId: 'inner' }, () => {
        context.with(derived(), () => assert.equal(user(), 'inner'));
        context.with(request, () => assert.equal(user(), 'inner'));
        assert.equal(fromSocket(context.bind(derived(), user)), 'inner');
      });
      setContext({ userId: 'renamed' });
      context.with(derived(), () => assert.equal(user(), 'renamed'));
    });
    context.with(ROOT_CONTEXT.setValue(spanLike, 'job'), () =>
      new AsyncResource('JOB').runInAsyncScope(() => {
        setContext({ userId: 'job' });
        context.with(derived(), () => assert.equal(user(), 'job'));
      }),
    );
  });

  it('is that of the request, where its server was started within a context', () => {
    context.with(ROOT_CONTEXT.setValue(spanLike, 'main'), () => {
      const added = { userId: 'alice', sessionId: null, correlationId: null, tags: null };
      contextStorage().run({ scope: createScope({}, {}, undefined), added }, () =>
        context.with(context.active().setValue(spanLike, 'child'), () => assert.equal(user(), 'alice')),
      );
    });
  });

  it('goes with what is attached, until that is taken back', () => {
    const active = inRequest('alice', () => context.active());
    const { attach } = context as unknown as { attach?: (given: unknown) => { dispose(): void } };
    assert.ok(attach, 'the API of the tests is 1.10 or later');
    fromSocket(() => {
      const token = attach.call(context, active);
      assert.equal(user(), 'alice');
      token.dispose();
      assert.equal(user(), 'opener');
    });
  });

  it('changes nothing of what a manager returns, throws and passes on', () => {
    const failure = new Error('mine');
    inRequest('alice', () => {
      const self = { name: 'self' };
      const given = context.with(
        ROOT_CONTEXT,
        function (this: unknown, ...args: unknown[]) {
          return [this, ...args];
        },
        self,
        1,
        2,
      );
      assert.deepEqual(given, [self, 1, 2]);
      assert.throws(
        () =>
          context.with(ROOT_CONTEXT, () => {
            throw failure;
          }),
        failure,
      );
      assert.equal(context.bind(ROOT_CONTEXT, 7), 7);
      const odd = {} as never;
      assert.equal(
        context.with(odd, () => 'as without svc'),
        'as without svc',
      );
    });
  });

  const entersAsItIs = (): void => {
    const made = ROOT_CONTEXT.setValue(spanLike, 1);
    inRequest('alice', () => context.with(made, () => assert.equal(context.active(), made)));
  };

  it('leaves a manager alone that cannot be changed', () => {
    context.disable();
    const frozen: ContextManager = Object.freeze(new AsyncLocalStorageContextManager());
    assert.ok(context.setGlobalContextManager(frozen));
    assert.doesNotThrow(enterAStore);
    entersAsItIs();
  });

  it('does nothing once svc has ended', () => {
    end();
    entersAsItIs();
  });
});
