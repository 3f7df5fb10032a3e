import assert from 'node:assert/strict';
import type { ExpressionScope } from '../../../src/capture/call.ts';
import { parseExpression } from '../../../src/capture/expression/compile.ts';
import { SvcError } from '../../../src/ground/errors.ts';

/** Must never show in an error. */
export const secret: string = 'SECRET-4111';

export class Hostile {
  email = secret;
  list = [secret, { deep: secret }, null];
  entries = new Map<unknown, unknown>([[secret, secret]]);
  count = 3;
  get bad(): never {
    throw new Error(secret);
  }
  getBad(): never {
    throw new TypeError(secret);
  }
  getClass(): unknown {
    return Hostile;
  }
  getLater(): unknown {
    return Promise.resolve(secret);
  }
  toDto(): object {
    return { email: this.email };
  }
  drop(): never {
    assert.fail('a method that writes was called');
  }
}

const revoked = Proxy.revocable([], {});
revoked.revoke();
const spiteful = new Proxy(
  {},
  {
    get() {
      throw new Error(secret);
    },
    getPrototypeOf() {
      throw new Error(secret);
    },
  },
);

export function hostileScope(): ExpressionScope {
  const result = new Hostile();
  return {
    args: [result, revoked.proxy, spiteful, Hostile, Symbol(secret), secret],
    result,
    self: Hostile,
    error: null,
  };
}

const names: readonly string[] = ['o', 'revoked', 'spiteful', 'type', 'symbol', 'text'];

/** Evaluates, and says what an attacker must never get: anything but a plain value or an SvcError without a secret. */
export function attack(text: string): { readonly value?: unknown; readonly error?: SvcError } {
  try {
    const value = parseExpression(text).bind(names)(hostileScope());
    assert.notEqual(typeof value, 'function', text);
    assert.notEqual(typeof value, 'symbol', text);
    assert.ok(value === spiteful || value === revoked.proxy || !(value instanceof Promise), text);
    for (const { prototype } of [Object, Function, Array, String, Promise, Hostile])
      assert.notEqual(value, prototype, text);
    return { value };
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    assert.match(error.code, /^SVC_CAPTURE_EXPRESSION(?:_SYNTAX|_NAME|_ASYNC)?$/u);
    assert.ok(!text.includes(secret) && !`${error.message}${error.stack}`.includes(secret), text);
    assert.equal(error.cause, undefined);
    return { error };
  }
}

const prototypes = [Object, Function, Array, Map, Hostile].map(({ prototype }) => prototype as object);
const before = prototypes.map((prototype) => Reflect.ownKeys(prototype).length);

/** Fails when something was added to a prototype since this file was loaded. */
export function assertUnpolluted(): void {
  assert.deepEqual(
    prototypes.map((prototype) => Reflect.ownKeys(prototype).length),
    before,
  );
}
