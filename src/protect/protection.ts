import { declaredRules } from '../capture/declare/make-plan.ts';
import type { Config } from '../config/config.ts';
import { SvcError } from '../ground/errors.ts';
import { defaultKeyId } from '../ground/event-fields.ts';
import { loadChunk } from '../ground/lifecycle.ts';
import type { KeyHealth } from '../ground/management.ts';
import type { FieldRule, PathRule } from '../ground/pii-rule.ts';
import { logger } from '../observe/logger.ts';
import type * as Keys from './keys/create-sealer.ts';
import type { KeyProvider } from './keys/key-provider.ts';
import type { KeyUse } from './keys/key-ring.ts';
import { classMarks, createPolicies } from './marks/policy.ts';
import { createProtector, type Protect } from './protect.ts';
import type { Sealer } from './sealer.ts';

export interface Protection {
  readonly protect: Protect;
  /** Adds rules for the payloads of one event type, declared in code. */
  addRules(eventType: string, rules: readonly PathRule[], owner: string): void;
  /** Adds the `pii` rules of saved events, once per set of rules and event type. */
  addSavedRules(event: SavedEvent): void;
  /** For health: each key, and the salt, that rules and marks have used. */
  keys(): readonly KeyHealth[];
  /** For the report at the end: path rules that matched no payload. */
  remarks(): readonly string[];
  /** See `invalidateEncryptionKeys`. */
  invalidateKeys(): Promise<void>;
  close(): Promise<void>;
}

interface SavedEvent {
  readonly eventType: string;
  readonly pii: unknown;
  /** Why the event cannot be stored. */
  readonly mistake: SvcError | undefined;
}

type OpenProvider = (kms: Config['pii']['kms'], type: string) => KeyProvider;

/** Lines of `remarks`. */
const maxLines = 20;

/** Builds rules, keys and salt from the configuration. Starts to fetch the keys of the key service that `openProvider` opens. */
export function createProtection(config: Config, openProvider: OpenProvider): Protection {
  const { pii } = config;
  const keepsTypes = config.serde.type === 'AVRO';
  if (!pii.enabled) {
    classMarks.watch(
      onceOnly(() => logger.warn('svc.pii.enabled is false: marked fields are published in clear')),
    );
    const protect = createProtector({
      policyOf: createPolicies({ general: [] }).policyOf,
      sealer: noSealer,
      usesMarks: false,
      keepsTypes,
    });
    return {
      protect,
      addRules() {},
      addSavedRules: savedRules(config, () => {}),
      keys: () => [],
      remarks: () => [],
      invalidateKeys: async () => {},
      close: async () => classMarks.watch(undefined),
    };
  }
  const policies = createPolicies({
    general: pii.fields,
    onUnmet: ({ path, owner, events }) =>
      logger.warn(
        `personal data: the path "${path}" of ${owner} was in none of ${events} payloads: check it`,
      ),
  });
  const { salt: chosenSalt, requireSalt = process.env.NODE_ENV === 'production' } = pii.crypto;
  let opened: ReturnType<typeof open> | undefined;
  const open = () => {
    const salt = keysModule().openSalt({ salt: chosenSalt, requireSalt });
    return { salt, sealer: openSealer(config, salt.value, openProvider) };
  };
  const inUse = () => {
    opened ??= open();
    return opened;
  };
  const asked = new Set<string>();
  const needed = new Set<string | undefined>();
  let saltError: string | undefined;
  const warnOfWeakKeys = onceOnly(() => {
    for (const id of inUse().sealer.weakKeys()) logger.warn(weakLine(id));
  });

  /** A rule with an unusable key is logged once. Its events are refused. */
  function prepare({ strategy, keyId }: FieldRule): void {
    const id = `${strategy} ${keyId}`;
    if (strategy === 'MASK' || asked.has(id)) return;
    asked.add(id);
    const { salt, sealer } = inUse();
    if (strategy === 'HASH') salt.announce();
    if (strategy === 'ENCRYPT') {
      needed.add(keyId);
      warnOfWeakKeys();
    }
    try {
      if (strategy === 'HASH') sealer.hash('');
      // This starts to fetch the key of a key service.
      if (strategy === 'ENCRYPT') sealer.encrypt('', { keyId, eventType: '', path: '' });
    } catch (error) {
      if (!(error instanceof SvcError) || error.code === 'SVC_PROTECT_KEY_UNAVAILABLE') return;
      if (strategy === 'HASH') saltError = error.message;
      logger.error(`personal data: ${error.message}`, { code: error.code });
    }
  }

  function keys(): KeyHealth[] {
    const states = [...needed].map((needs): KeyHealth => {
      const { provider, keyId, usable, error } = inUse().sealer.keyState(needs);
      const state = { provider, keyId, status: usable ? 'UP' : 'DOWN' } as const;
      return error === undefined ? state : { ...state, error };
    });
    if (saltError === undefined) return states;
    return [...states, { provider: 'configuration', keyId: 'salt', status: 'DOWN', error: saltError }];
  }

  function addRules(eventType: string, rules: readonly PathRule[], owner: string): void {
    policies.add(eventType, rules, owner);
    for (const rule of rules) prepare(rule);
  }

  // Starts to fetch the keys. `onFailure` reports each failed key.
  if (pii.kms.enabled || pii.crypto.keys.length > 0 || (pii.crypto.defaultKey ?? chosenSalt) !== undefined)
    inUse()
      .sealer.ready()
      .catch(() => {});
  for (const rule of pii.fields) prepare(rule);
  classMarks.watch(prepare);
  return {
    protect: createProtector({
      policyOf: policies.policyOf,
      sealer: {
        encrypt: (plain, field) => inUse().sealer.encrypt(plain, field),
        hash: (plain) => inUse().sealer.hash(plain),
      },
      keepsTypes,
      defers: pii.kms.enabled && pii.kms.onUnavailable === 'hold',
      detects: pii.detect === 'report',
      onUnreadable: sayUnreadable(),
    }),
    addRules,
    addSavedRules: savedRules(config, addRules),
    keys,
    remarks() {
      const rules = policies.unmet();
      if (rules.length === 0) return [];
      const lines = rules
        .slice(0, maxLines)
        .map(({ path, owner, events }) => `  ${path}  of ${owner}, payloads: ${events}`);
      if (rules.length > maxLines) lines.push(`  and ${rules.length - maxLines} more`);
      return [['personal data: these paths were in no payload', ...lines].join('\n')];
    },
    invalidateKeys: async () => opened?.sealer.invalidateKeys(),
    async close() {
      classMarks.watch(undefined);
      await opened?.sealer.close();
    },
  };
}

/** Loaded for the first key or salt, or the first rule that encrypts or hashes. */
function keysModule(): typeof Keys {
  return loadChunk(import.meta.url, './keys/create-sealer.ts') as typeof Keys;
}

/** Limit of logged fields. */
const maxUnreadable = 100;

function sayUnreadable(): (eventType: string, field: string) => void {
  const said = new Set<string>();
  return (eventType, field) => {
    const id = `${eventType} ${field}`;
    if (said.has(id) || said.size >= maxUnreadable) return;
    said.add(id);
    logger.warn(
      `personal data: the marked field ${field} in ${eventType} holds an object whose text svc cannot read. svc therefore protects all values beside it in the toJSON of its owner. Give the class of that object a toJSON`,
    );
  };
}

function openSealer({ pii, targets }: Config, salt: string | undefined, openProvider: OpenProvider) {
  const { crypto, kms } = pii;
  const { configuredKeys, createSealer } = keysModule();
  const format = crypto.format === 'v1' ? 'v1' : 'v0';
  const onWorn = (use: KeyUse) => sayWorn(use);
  if (!kms.enabled || kms.type === undefined)
    return createSealer({ keys: configuredKeys(crypto), format, salt, use: { onWorn } });
  const rules = [...pii.fields, ...targets.flatMap((target) => target.pii ?? [])];
  const keyIds = rules.filter(({ strategy }) => strategy === 'ENCRYPT').map(({ keyId }) => keyId);
  // A provider registered by the application has the settings of AWS.
  const { dekCacheTtlMs: ttlMs, dekCacheMaxSize: maxEntries } = kms.type === 'vault' ? kms.vault : kms.aws;
  return createSealer({
    provider: openProvider(kms, kms.type),
    defaultKeyId,
    keyIds,
    format,
    salt,
    cache: {
      ttlMs,
      maxEntries,
      onWorn,
      /** Logged at once, because an event that needs the key may come much later. */
      onFailure({ keyId, error: { code, message }, usable }) {
        if (usable)
          logger.warn(`personal data: the key "${keyId}" cannot be replaced and stays in use: ${message}`, {
            code,
          });
        else logger.error(`personal data: the key "${keyId}" is unavailable: ${message}`, { code });
      },
    },
  });
}

function weakLine(id: string): string {
  return `SECURITY: the encryption key "${id}" is not random and can be guessed: make one with openssl rand -base64 32`;
}

function sayWorn({ keyId, messages, isUsedUp }: KeyUse): void {
  if (isUsedUp)
    logger.error(`personal data: the key "${keyId}" has encrypted ${messages} values, the limit of one key`, {
      code: 'SVC_PROTECT_KEY_USED_UP',
    });
  else
    logger.warn(
      `personal data: the key "${keyId}" has encrypted ${messages} values in this process, half the limit of one key: rotate it`,
    );
}

function onceOnly(say: () => void): () => void {
  let isSaid = false;
  return () => {
    if (!isSaid) say();
    isSaid = true;
  };
}

const noSealer: Sealer = { encrypt: () => '', hash: () => '' };

function savedRules(config: Config, addRules: Protection['addRules']): Protection['addSavedRules'] {
  const known = new Set<string>();
  return ({ eventType, pii, mistake }) => {
    if (pii === undefined || mistake !== undefined) return;
    const rules = declaredRules({ pii }, config);
    const id = JSON.stringify([eventType, rules]);
    if (known.has(id)) return;
    known.add(id);
    addRules(eventType, rules, `outbox.save(${eventType})`);
  };
}
