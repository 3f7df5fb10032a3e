import assert from 'node:assert/strict';
import { createAwsKmsKeyProvider } from '../../src/adapters/aws-kms/aws-kms-key-provider.ts';
import { createAvroReader } from '../../src/adapters/schema-registry/avro-reader.ts';
import { createVaultKeyProvider } from '../../src/adapters/vault/vault-key-provider.ts';
import { planOfDeclaration } from '../../src/capture/declare/make-plan.ts';
import { checkOutboxOf, checkRulesOf } from '../../src/config/check/check.ts';
import { loadConfig } from '../../src/config/read/load.ts';
import { consumeOnce } from '../../src/consume/consume-once.ts';
import { createInbox } from '../../src/consume/inbox.ts';
import {
  createDecryptionKeys,
  decryptBatch,
  decryptFields,
  tryDecryptFields,
} from '../../src/consumer/decrypt-fields.ts';
import { runWithContext, setContext } from '../../src/context/request.ts';
import { checkEvent } from '../../src/outbox/api/outbox-event.ts';
import { PiiField } from '../../src/protect/marks/policy.ts';
import { checkPublishOptions } from '../../src/publish/api/check-options.ts';
import {
  assertNothingStored,
  assertPublished,
  assertStored,
  outboxEvents,
  waitFor,
} from '../../src/testing.ts';
import { temporaryFolder } from '../support/folders.ts';

/** Its field is private: whoever reads its properties finds nothing. */
class Sealed {
  readonly #topic = 'orders';
  get topic(): string {
    return this.#topic;
  }
}

class Shown {
  readonly unheard = 'orders';
}

const key = { id: 'main', key: Buffer.alloc(32).toString('base64') };
const keys = createDecryptionKeys({ keys: [key] });
const inbox = { once: async () => ({ handled: false as const }) };
const handlers = { PLACED: async () => {} };
const consume = (more: object) =>
  consumeOnce({ consumer: {}, topics: ['orders'], inbox, handlers, ...more } as never);
const raise = (mistake: Error | undefined): void => {
  if (mistake !== undefined) throw mistake;
};
const unlessOk = ({ ok }: { ok: boolean }): void => {
  if (!ok) throw Object.assign(new Error('a plain object of names and values'), { code: 'MISTAKE' });
};

const cwd = temporaryFolder('options');
function checkTarget(more: object): { ok: boolean } {
  const targets = [{ module: './a.js', function: 'a', ...more }];
  const code = { svc: { broker: { topic: 'orders' }, targets } };
  return { ok: loadConfig({ cwd, env: {}, code }).targetProblems.length === 0 };
}

const headersOf = (given: unknown) => checkPublishOptions({ headers: given }).headers?.();

interface Place {
  readonly code: string;
  readonly give: (options: unknown) => unknown;
  /** Its names are the caller's own. */
  readonly isOpen?: boolean;
  /** Takes a list, or a map, as well. */
  readonly takes?: readonly string[];
}

const places: Readonly<Record<string, Place>> = {
  'publish()': { code: 'SVC_PUBLISH_OPTIONS', give: (it) => raise(checkPublishOptions(it).mistake) },
  'headers of publish()': {
    ...{ code: 'SVC_PUBLISH_HEADERS', isOpen: true, takes: ['a map', 'headers of fetch'] },
    give: headersOf,
  },
  'outbox.save()': { code: 'SVC_OUTBOX_EVENT', give: (it) => raise(checkEvent(it).mistake) },
  'publishEvent() and @PublishEvent': {
    code: 'SVC_CAPTURE_RULE',
    give: (it) =>
      planOfDeclaration({ options: it, name: 'create', parameterNames: [] } as never, {} as never),
  },
  'outbox of a target': { code: 'MISTAKE', give: (it) => unlessOk(checkOutboxOf(it)) },
  'headers of a target': {
    code: 'MISTAKE',
    give: (it) => unlessOk(checkTarget({ headers: it })),
    isOpen: true,
  },
  'pii of a target': {
    ...{ code: 'MISTAKE', isOpen: true, takes: ['an empty list'] },
    give: (it) => unlessOk(checkRulesOf(it, true)),
  },
  'a path of pii': {
    ...{ code: 'MISTAKE', give: (it: unknown) => unlessOk(checkRulesOf({ 'a.b': it }, true)) },
  },
  '@PiiField': {
    code: 'SVC_PROTECT_RULE',
    give: (it) => PiiField(it as never)({}, 'email'),
  },
  'setContext()': { code: 'SVC_CONTEXT_VALUES', give: (it) => setContext(it as never) },
  'runWithContext()': { code: 'SVC_CONTEXT_VALUES', give: (it) => runWithContext(it as never, () => {}) },
  'tags of a context': {
    ...{ code: 'SVC_CONTEXT_VALUES', isOpen: true },
    give: (it) => runWithContext({ tags: it as never }, () => {}),
  },
  'consumeOnce()': { code: 'SVC_CONSUME_OPTIONS', give: (it) => consumeOnce(it as never) },
  'handlers of consumeOnce()': {
    ...{ code: 'SVC_CONSUME_OPTIONS', give: (it: unknown) => consume({ handlers: it }), isOpen: true },
  },
  'upcast of consumeOnce()': {
    ...{ code: 'SVC_CONSUME_OPTIONS', give: (it: unknown) => consume({ upcast: it }), isOpen: true },
  },
  'retry of consumeOnce()': { code: 'SVC_CONSUME_OPTIONS', give: (it) => consume({ retry: it }) },
  'deadLetters of consumeOnce()': { code: 'SVC_CONSUME_OPTIONS', give: (it) => consume({ deadLetters: it }) },
  'decrypt of consumeOnce()': { code: 'SVC_CONSUME_OPTIONS', give: (it) => consume({ decrypt: it }) },
  'createInbox()': { code: 'SVC_CONSUME_OPTIONS', give: (it) => createInbox(it as never) },
  'createDecryptionKeys()': {
    code: 'SVC_CONSUMER_OPTIONS',
    give: (it) => createDecryptionKeys(it as never),
  },
  'cache of createDecryptionKeys()': {
    code: 'SVC_CONSUMER_OPTIONS',
    give: (it) => createDecryptionKeys({ keys: [key], cache: it as never }),
  },
  'decryptFields()': {
    code: 'SVC_CONSUMER_OPTIONS',
    give: (it) => decryptFields({ payload: {} }, keys, it as never),
  },
  'tryDecryptFields()': {
    code: 'SVC_CONSUMER_OPTIONS',
    give: (it) => tryDecryptFields({ payload: {} }, keys, it as never),
  },
  'decryptBatch()': {
    code: 'SVC_CONSUMER_OPTIONS',
    async give(it) {
      const [one] = await decryptBatch([{ payload: {} }], keys, it as never);
      if (one?.ok === false) throw one.error;
    },
  },
  'createAvroReader()': { code: 'SVC_ADAPTERS_OPTIONS', give: (it) => createAvroReader(it as never) },
  'keys of createVaultKeyProvider()': {
    ...{ code: 'SVC_PROTECT_KEY_REFUSED', isOpen: true },
    give: (it) => createVaultKeyProvider({ token: 't', keys: it as never }),
  },
  'keys of createAwsKmsKeyProvider()': {
    ...{ code: 'SVC_PROTECT_KEY_REFUSED', isOpen: true },
    give: (it) => createAwsKmsKeyProvider({ keys: it as never }),
  },
  'encryptionContext of createAwsKmsKeyProvider()': {
    ...{ code: 'SVC_PROTECT_KEY_REFUSED', isOpen: true },
    give: (it) => createAwsKmsKeyProvider({ encryptionContext: it as never }),
  },
  'waitFor()': { code: 'SVC_TESTING_MATCH', give: (it) => waitFor(it as never) },
  'assertPublished()': { code: 'SVC_TESTING_MATCH', give: (it) => assertPublished(it as never) },
  'outboxEvents()': { code: 'SVC_TESTING_MATCH', give: (it) => outboxEvents(it as never) },
  'assertStored()': { code: 'SVC_TESTING_MATCH', give: (it) => assertStored(it as never) },
  'assertNothingStored()': { code: 'SVC_TESTING_MATCH', give: (it) => assertNothingStored(it as never) },
};

const unknownKinds: Readonly<Record<string, unknown>> = {
  'a map': new Map([['topic', 'orders']]),
  'headers of fetch': new Headers({ topic: 'orders' }),
  'a list': [['topic', 'orders']],
  'an empty list': [],
  'a set': new Set(['topic']),
  'an instance that shows no field': new Sealed(),
  'a date': new Date(),
  'a buffer': Buffer.from('topic'),
};

describe('options', () => {
  for (const [name, { code, give, isOpen = false, takes = [] }] of Object.entries(places)) {
    for (const [what, value] of Object.entries(unknownKinds)) {
      if (takes.includes(what)) continue;
      it(`${name} says that ${what} is none`, async () => {
        await assert.rejects(async () => give(value), { code });
      });
    }
    if (isOpen) continue;
    it(`${name} says that it does not know a name`, async () => {
      for (const value of [{ unheard: 1 }, new Shown()])
        await assert.rejects(async () => give(value), { code });
    });
  }

  it('say what was meant', () => {
    const said = (give: () => unknown): string => {
      try {
        give();
      } catch (error) {
        return (error as Error).message;
      }
      return '';
    };
    assert.match(
      said(() => PiiField({ stratgy: 'HASH' } as never)({}, 'email')),
      /did you mean strategy/,
    );
    assert.match(
      said(() => setContext({ userID: 7 } as never)),
      /did you mean userId/,
    );
    assert.match(
      said(() => assertPublished({ eventtype: 'A' } as never)),
      /did you mean eventType/,
    );
    assert.match(
      said(() => createDecryptionKeys({ key: [] } as never)),
      /did you mean keys/,
    );
    assert.match(
      said(() => createInbox({ consumr: 'a' } as never)),
      /did you mean consumer/,
    );
  });
});
