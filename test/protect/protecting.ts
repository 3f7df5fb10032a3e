import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { checkRulesOf } from '../../src/config/check/check.ts';
import type { Envelope } from '../../src/envelope/envelope.ts';
import { type ErrorCode, SvcError } from '../../src/ground/errors.ts';
import { createSealer } from '../../src/protect/keys/create-sealer.ts';
import { compilePolicy } from '../../src/protect/marks/policy.ts';
import { type ClearText, createProtector } from '../../src/protect/protect.ts';
import type { Sealer } from '../../src/protect/sealer.ts';
import { payloadJson } from '../../src/serialize/serializer.ts';

export const testSealer: Sealer = createSealer({
  keys: [{ id: 'k1', key: Buffer.alloc(32, 1) }],
  salt: 'salt',
});

/** What is published of a payload, as its readers see it. `rules` in the forms of the configuration. */
export function publishes(
  payload: unknown,
  rules: unknown = [],
  options: Parameters<typeof publisher>[1] = {},
): unknown {
  return publisher(rules, options)(payload);
}

/** The same for several payloads of one protector. */
export function publisher(
  rules: unknown,
  options: Partial<Parameters<typeof createProtector>[0]> & {
    readonly key?: string | readonly string[];
    readonly headers?: Readonly<Record<string, string>>;
  },
): (payload: unknown) => unknown {
  const checked = checkRulesOf(rules, true);
  if (!checked.ok) throw new TypeError(checked.message);
  const policy = compilePolicy(checked.value);
  const { key, headers, ...rest } = options;
  const protect = createProtector({ policyOf: () => policy, sealer: testSealer, ...rest });
  const texts: ClearText[] = [key ?? []].flat().map((text) => ({ of: 'key', text }));
  for (const text of Object.values(headers ?? {})) texts.push({ of: 'header', text });
  const inClear = texts.length === 0 ? undefined : texts;
  return (payload) => {
    const envelope = { template: { eventType: 'E' }, payload } as Envelope;
    return JSON.parse(payloadJson(protect(envelope, inClear)));
  };
}

/** The event is refused with this code, and nothing of `secret` can be seen in the error. */
export function refuses(
  payload: unknown,
  code: ErrorCode,
  rules: unknown = [],
  options: Parameters<typeof publishes>[2] & { readonly secret?: string } = {},
): void {
  const { secret, ...rest } = options;
  assert.throws(
    () => publishes(payload, rules, rest),
    (error) => {
      assert.ok(error instanceof SvcError, inspect(error));
      assert.equal(error.code, code);
      if (secret !== undefined)
        assert.equal(inspect(error, { depth: 9, showHidden: true }).includes(secret), false);
      return true;
    },
  );
}
