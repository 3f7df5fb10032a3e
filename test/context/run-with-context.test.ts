import assert from 'node:assert/strict';
import { AsyncResource } from 'node:async_hooks';
import { setTimeout as wait } from 'node:timers/promises';
import { createOriginReader } from '../../src/context/origin.ts';
import { runWithContext, setContext } from '../../src/context/request.ts';

const readOrigin = createOriginReader();
const nobody = { userId: null, sessionId: null, correlationId: null, clientIp: null, tags: null };

describe('runWithContext', () => {
  it('holds for what runs inside, later as well, and returns what that returns', async () => {
    const values = { userId: 'u', sessionId: 's', correlationId: 'c', tags: { tenant: 't' } };
    const origin = await runWithContext(values, async () => {
      await wait(1);
      return readOrigin();
    });
    assert.deepEqual(origin, { ...nobody, ...values });
    assert.deepEqual(readOrigin(), nobody);
  });

  it('comes on top of an outer one, and ends', () => {
    runWithContext({ userId: 'u', correlationId: 'c', tags: { a: 1, b: 2, c: 3 } }, () => {
      runWithContext({ userId: null, sessionId: 's', tags: { b: 'two', c: null, d: true } }, () => {
        const tags = { a: '1', b: 'two', d: 'true' };
        assert.deepEqual(readOrigin(), { ...nobody, sessionId: 's', correlationId: 'c', tags });
      });
      assert.deepEqual(readOrigin().tags, { a: '1', b: '2', c: '3' });
      assert.equal(readOrigin().userId, 'u');
      runWithContext({ tags: null }, () => assert.equal(readOrigin().tags, null));
      runWithContext({ tags: { a: null, b: null, c: null } }, () => assert.equal(readOrigin().tags, null));
    });
  });

  it('passes an error on and ends', () => {
    const fail = () => {
      throw new Error('mine');
    };
    assert.throws(() => runWithContext({ userId: 'u' }, fail), { message: 'mine' });
    assert.deepEqual(readOrigin(), nobody);
  });

  it('takes numbers, and nothing that is no identifier', () => {
    const origin = (userId: unknown) =>
      runWithContext({ userId: userId as string }, () => readOrigin().userId);
    assert.equal(origin(42), '42');
    assert.equal(origin(2n ** 64n), '18446744073709551616');
    assert.equal(origin(2n ** 16_384n), null);
    assert.equal(origin(''), '');
    for (const value of [{}, [], true, Number.NaN, Symbol('s'), () => 'u']) assert.equal(origin(value), null);
  });

  it('makes no tag that would change the object itself', () => {
    const tags = JSON.parse('{"__proto__":"x","constructor":"c"}');
    runWithContext({ tags }, () => {
      const made = readOrigin().tags as object;
      assert.equal(Object.getPrototypeOf(made), Object.prototype);
      assert.deepEqual(Object.entries(made), [['constructor', 'c']]);
    });
  });
});

describe('setContext', () => {
  it('adds to the context it is called in, for what follows in the same execution', () => {
    runWithContext({ userId: 'u', tags: { a: 1 } }, () => {
      const before = readOrigin();
      new AsyncResource('TEST').runInAsyncScope(() => {
        setContext({ sessionId: 's', tags: { b: 2 } });
        assert.deepEqual(readOrigin(), { ...nobody, userId: 'u', sessionId: 's', tags: { a: '1', b: '2' } });
      });
      assert.deepEqual(readOrigin(), before, 'what goes on beside it keeps its own');
      assert.deepEqual(before.tags, { a: '1' }, 'an event that was made keeps its tags');
    });
    assert.deepEqual(readOrigin(), nobody);
  });

  describe('keeps executions apart that go side by side, outside of a request', () => {
    const users = ['alice', 'bob', 'carol'];
    const job = async (userId: string, more: object = {}) => {
      setContext({ userId, ...more });
      await wait(Math.random() * 5);
      setContext({ tags: { of: userId } });
      await wait(1);
      return readOrigin();
    };
    const run = (name: string, start: () => Promise<Awaited<ReturnType<typeof job>>[]>) =>
      it(name, async () => {
        const seen = await new AsyncResource('TEST').runInAsyncScope(start);
        assert.deepEqual(
          seen.map(({ userId, tags }) => [userId, tags?.of]),
          users.map((user) => [user, user]),
        );
      });

    run('without a context', () => Promise.all(users.map((user) => job(user))));
    run('after a setContext that they all inherit', () => {
      setContext({ userId: 'main' });
      return Promise.all(users.map((user) => job(user)));
    });
    run('within one runWithContext', () =>
      runWithContext({ correlationId: 'batch' }, () => Promise.all(users.map((user) => job(user)))),
    );

    it('takes over nothing of another user, session or correlation id', async () => {
      const values = [{ userId: 'a' }, { sessionId: 'a' }, { correlationId: 'a' }] as const;
      for (const first of values) {
        await new AsyncResource('TEST').runInAsyncScope(async () => {
          const [name = ''] = Object.keys(first);
          const one = async () =>
            setContext({ userId: 'u', sessionId: 's', correlationId: 'c', tags: { a: 1 } });
          const other = async () => {
            setContext({ [name]: 'another' });
            await wait(1);
            return readOrigin();
          };
          const [, seen] = await Promise.all([one(), other()]);
          assert.deepEqual(seen, { ...nobody, [name]: 'another' });
        });
      }
    });

    it('goes back to what runWithContext gave', () => {
      runWithContext({ correlationId: 'batch', tags: { a: 1 } }, () => {
        setContext({ userId: 'u', sessionId: 's', tags: { b: 2 } });
        setContext({ userId: 'v' });
        assert.deepEqual(readOrigin(), { ...nobody, userId: 'v', correlationId: 'batch', tags: { a: '1' } });
      });
    });
  });

  it('does not reach out of a nested context', () => {
    runWithContext({ userId: 'outer' }, () => {
      runWithContext({}, () => {
        setContext({ userId: 'inner' });
        assert.equal(readOrigin().userId, 'inner');
      });
      assert.equal(readOrigin().userId, 'outer');
    });
  });

  it('holds for the rest of the asynchronous execution outside of any context', async () => {
    await new AsyncResource('TEST').runInAsyncScope(async () => {
      setContext({ userId: 'job' });
      await wait(1);
      assert.equal(readOrigin().userId, 'job');
    });
    assert.equal(readOrigin().userId, null);
  });
});
