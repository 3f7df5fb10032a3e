import slowRedact from '@pinojs/redact';
import type { Bench } from '../../scripts/bench.ts';
import type { Envelope } from '../../src/envelope/envelope.ts';
import type { PathRule, PiiStrategy } from '../../src/field-rule.ts';
import { createSealer } from '../../src/protect/create-sealer.ts';
import { mask } from '../../src/protect/mask.ts';
import { compilePolicy } from '../../src/protect/policy.ts';
import { createProtector } from '../../src/protect/protect.ts';
import { payload } from './payload.ts';

const calls = 2_000;
const rounds = 100;

const fields = [
  { path: 'customer.name', type: 'NAME' },
  { path: 'customer.email', type: 'EMAIL' },
  { path: 'address.street', type: 'ADDRESS' },
] as const;

function rulesOf(strategy: PiiStrategy, anywhere: boolean): PathRule[] {
  return fields.map(({ path, type }) => {
    const deep = path.replace(/^.*\./, '**.');
    return { path: anywhere ? deep : path, type, strategy, level: 'NORMAL' };
  });
}

/** Protects and stringifies, as an event's payload is. */
function protecting(rules: readonly PathRule[]): () => string {
  const policy = compilePolicy(rules);
  const sealer = createSealer({
    keys: [{ id: 'k1', key: Buffer.alloc(32, 1) }],
    salt: 'a salt of the bench',
  });
  const protect = createProtector({ policyOf: () => policy, sealer });
  const envelope = { template: { eventType: 'ORDER_CREATED' }, payload } as unknown as Envelope;
  return () => JSON.stringify(protect(envelope).payload);
}

function cloneAndMutate(): string {
  const copy = structuredClone(payload) as unknown as {
    customer: Record<string, string>;
    address: Record<string, string>;
  };
  const [name, email, street] = rulesOf('MASK', false) as [PathRule, PathRule, PathRule];
  copy.customer.name = mask(payload.customer.name, name);
  copy.customer.email = mask(payload.customer.email, email);
  copy.address.street = mask(payload.address.street, street);
  return JSON.stringify(copy);
}

/**
 * Microseconds per call of a case and of `JSON.stringify`: the best of many short rounds, in turn, so that a busy moment hits
 * both alike.
 */
function measure(run: () => unknown): { value: number; ratio: number } {
  const best = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  const both = [stringify, run];
  for (let round = 0; round < rounds; round++) {
    for (const [index, work] of both.entries()) {
      const started = process.hrtime.bigint();
      for (let call = 0; call < calls; call++) work();
      const us = Number(process.hrtime.bigint() - started) / 1000 / calls;
      best[index] = Math.min(best[index] as number, us);
    }
  }
  const [floor = 0, value = 0] = best;
  return { value: Number(value.toFixed(3)), ratio: Number((value / floor).toFixed(2)) };
}

function stringify(): string {
  return JSON.stringify(payload);
}

export const bench: Bench = async (progress) => {
  const bytes = stringify().length;
  progress(
    `us per call, best of ${rounds} x ${calls}, payload ${bytes} bytes, 3 fields, Node ${process.version}`,
  );
  const redact = slowRedact({ paths: fields.map(({ path }) => path), censor: '****' });
  const cases: Readonly<Record<string, () => unknown>> = {
    mask: protecting(rulesOf('MASK', false)),
    hash: protecting(rulesOf('HASH', false)),
    encrypt: protecting(rulesOf('ENCRYPT', false)),
    'no-rules': protecting([]),
    'mask-any-depth': protecting(rulesOf('MASK', true)),
    'pinojs-redact': () => redact(payload),
    'structured-clone': cloneAndMutate,
  };
  const unit = 'us';
  return [
    { case: 'stringify', value: measure(stringify).value, unit },
    ...Object.entries(cases).map(([name, run]) => ({
      case: name,
      unit,
      against: 'stringify',
      ...measure(run),
    })),
  ];
};
