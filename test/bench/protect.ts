import { createCipheriv, createHmac, createSecretKey, randomFillSync } from 'node:crypto';
import slowRedact from '@pinojs/redact';
import type { Bench } from '../../scripts/bench.ts';
import type { Envelope } from '../../src/envelope/envelope.ts';
import type { PathRule, PiiStrategy } from '../../src/ground/pii-rule.ts';
import { createSealer } from '../../src/protect/keys/create-sealer.ts';
import { compilePolicy } from '../../src/protect/marks/policy.ts';
import { mask } from '../../src/protect/mask.ts';
import { createProtector } from '../../src/protect/protect.ts';
import { payloadJson } from '../../src/serialize/serializer.ts';
import { calls, measure, rounds } from './measure.ts';
import { payload } from './payload.ts';

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
  return () => payloadJson(protect(envelope));
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

/** The least that three encrypted fields can cost: the calls of `node:crypto` with what goes in and out of them, by hand. */
function bareEncrypt(): () => string {
  const key = createSecretKey(Buffer.alloc(32, 1));
  const ivs = Buffer.alloc(12 * 1024);
  let next = 1024;
  const seal = (text: string): string => {
    if (next === 1024) {
      randomFillSync(ivs);
      next = 0;
    }
    const iv = ivs.subarray(next * 12, ++next * 12);
    const cipher = createCipheriv('aes-256-gcm', key, iv, { authTagLength: 16 });
    const sealed = cipher.update(text, 'utf8');
    cipher.final();
    return `ENC(${Buffer.concat([iv, sealed, cipher.getAuthTag()]).toString('base64')})`;
  };
  return () => sealedByHand(seal);
}

/** The same of three hashed ones. */
function bareHash(): () => string {
  const key = createSecretKey(Buffer.from('a salt of the bench'));
  return () => sealedByHand((text) => `HASH(${createHmac('sha256', key).update(text).digest('base64')})`);
}

function sealedByHand(seal: (text: string) => string): string {
  const { customer, address } = payload;
  return JSON.stringify({
    ...payload,
    customer: { ...customer, name: seal(customer.name), email: seal(customer.email) },
    address: { ...address, street: seal(address.street) },
  });
}

/**
 * Microseconds per call of a case, and how many times that of another one, `JSON.stringify` by default: the best of many short
 * rounds, in turn, so that a busy moment hits both alike.
 */
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
    'bare-hash': bareHash(),
    'bare-encrypt': bareEncrypt(),
  };
  const unit = 'us';
  const besideBare = (name: 'hash' | 'encrypt') => ({
    case: `${name}-over-bare`,
    unit,
    against: `bare-${name}`,
    ...measure(cases[name] as () => unknown, cases[`bare-${name}`] as () => unknown),
  });
  return [
    { case: 'stringify', value: measure(stringify, stringify).value, unit },
    ...Object.entries(cases).map(([name, run]) => ({
      case: name,
      unit,
      against: 'stringify',
      ...measure(run, stringify),
    })),
    besideBare('hash'),
    besideBare('encrypt'),
  ];
};
