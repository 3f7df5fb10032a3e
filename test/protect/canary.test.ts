import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import ts from 'typescript';
import { sharedMemoryStore } from '../../src/adapters/memory/memory-store.ts';
import { loadConfig } from '../../src/config/load.ts';
import { formatProblem } from '../../src/config/problem.ts';
import * as everything from '../../src/index.ts';
import type { Logger } from '../../src/observe/logger.ts';
import type { Producer } from '../../src/publish/producer.ts';
import { type Service, start } from '../../src/start.ts';
import { forgetDeclarations } from '../capture/forget-declarations.ts';

const { PiiField, publishEvent, registerMasker } = everything;

/** What must never be seen outside, in any of the forms that it could take. */
const canaries = {
  email: 'canary.bird@cage.example.com',
  phone: '+49 30 90182077',
  card: '4111 1111 1111 1111',
  name: 'Tweety Canary-Bird',
  iban: 'DE89370400440532013000',
};
const texts = Object.values(canaries).flatMap((text) => [
  text,
  text.replaceAll(' ', ''),
  encodeURIComponent(text),
  Buffer.from(text).toString('base64').replace(/=+$/, '').slice(0, -1),
  Buffer.from(text).toString('hex'),
]);

function assertSilent(where: string, content: string): void {
  for (const text of texts) assert.equal(content.includes(text), false, `${where} shows ${text}`);
}

interface Person {
  email: string;
  failing?: boolean;
}
type PersonClass = new () => Person;

/** A class as a compiler makes it, with marks of every strategy. */
function marked(strategies: Readonly<Record<string, string>>): PersonClass {
  const fields = Object.entries(canaries).map(
    ([name, text]) =>
      `@PiiField({ type: '${name === 'iban' ? 'ACCOUNT' : name.toUpperCase()}', strategy: '${strategies[name] ?? 'MASK'}' })
       ${name} = ${JSON.stringify(text)};`,
  );
  const text = `import { PiiField } from 'svc'; export class Person { ${fields.join('\n')} }`;
  const { outputText } = ts.transpileModule(text, {
    compilerOptions: { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022 },
  });
  const exports: { Person?: PersonClass } = {};
  new Function('exports', 'require', outputText)(exports, () => ({ PiiField }));
  return exports.Person as PersonClass;
}

const throwing = (): never => {
  throw new Error(`cannot send to ${canaries.email} (${canaries.card})`);
};

describe('canary: what is marked', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-canary-'));
  const spans = new InMemorySpanExporter();
  const tracers = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter: spans })] });
  let log: string[];
  let service: Service | undefined;

  before(() => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    trace.setGlobalTracerProvider(tracers);
  });
  after(async () => {
    trace.disable();
    context.disable();
    await tracers.shutdown();
    rmSync(folder, { recursive: true, force: true });
  });
  beforeEach(() => {
    log = [];
    spans.reset();
    sharedMemoryStore().clear();
  });
  afterEach(async () => {
    await service?.stop(1000);
    service = undefined;
    forgetDeclarations();
  });

  const line =
    (level: string): Logger['info'] =>
    (message, fields) =>
      void log.push(`${level} ${message} ${inspect(fields, { depth: 20 })}`);
  const logger: Logger = {
    debug: line('debug'),
    info: line('info'),
    warn: line('warn'),
    error: line('error'),
  };

  function run(pii: object, broker: object = { client: 'memory' }, env: NodeJS.ProcessEnv = {}): Service {
    const { config, problems } = loadConfig({
      cwd: folder,
      env,
      code: {
        svc: { broker: { topic: 'canary', ...broker }, log: { level: 'debug' }, pii },
        management: { server: { port: 0 } },
      },
    });
    assert.deepEqual(problems.map(formatProblem), []);
    service = start(config, logger);
    return service;
  }

  async function metricsText(): Promise<string> {
    for (let tries = 0; tries < 100; tries++) {
      const url = log.join('\n').match(/http:\/\/127\.0\.0\.1:\d+\/metrics/)?.[0];
      if (url !== undefined) {
        const other = url.replace('/metrics', '/actuator/health/svc');
        return (await Promise.all([url, other].map(async (one) => (await fetch(one)).text()))).join('\n');
      }
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return assert.fail('no management server');
  }

  /** Publishes in every way there is; gives what was thrown. */
  async function publishAll(Person: PersonClass, failing: object): Promise<unknown[]> {
    const producer = service?.producer as Producer;
    const { email } = canaries;
    const person = () => new Person();
    const payloads: unknown[] = [
      person(),
      [person()],
      { deep: { list: [new Map([['a', { person: person() }]])], set: new Set([person()]) } },
      { customer: { email }, contacts: [{ phone: canaries.phone }] },
      { toJSON: () => ({ person: person(), customer: { email } }) },
      { [Symbol.toPrimitive]: () => email, customer: { email: Object(email) } },
      failing,
    ];
    const thrown: unknown[] = [];
    const note = (error: unknown) => void thrown.push(error);
    for (const payload of payloads) await producer.publish(payload, { eventType: 'DIRECT' }).catch(note);
    const calls = [
      publishEvent({ eventType: 'BY_RESULT', failOnError: true }, async () => person()),
      publishEvent(
        { eventType: 'BY_ARGUMENT', payload: '#args[0]', failOnError: true },
        async (_: unknown) => 1,
      ),
      publishEvent(
        { eventType: 'BY_TEXT', payload: '#args[0].email', pii: { type: 'EMAIL' }, failOnError: true },
        async (_: unknown) => 1,
      ),
      publishEvent(
        { eventType: 'BY_KEY', payload: '#args[0]', key: ({ args }) => args[0].email, failOnError: true },
        async (_: { email: string }) => 1,
      ),
      publishEvent({ eventType: 'FAILING', payload: throwing, failOnError: true }, async () => 1),
    ];
    for (const call of calls) await (call as (person: Person) => Promise<unknown>)(person()).catch(note);
    await service?.drain(2000);
    return thrown;
  }

  async function assertNothingShown(thrown: readonly unknown[]): Promise<void> {
    const deep = { depth: 30, showHidden: true, getters: true, maxArrayLength: null, maxStringLength: null };
    const records = sharedMemoryStore().all();
    assertSilent(
      'topic',
      records.map(({ record }) => JSON.stringify({ ...record, value: String(record.value) })).join('\n'),
    );
    assertSilent('log', log.join('\n'));
    assertSilent(
      'thrown errors',
      thrown.map((error) => `${inspect(error, deep)} ${JSON.stringify(error)}`).join('\n'),
    );
    const ended = spans.getFinishedSpans();
    assertSilent(
      'spans',
      inspect(
        ended.map(({ name, attributes, events, status, links }) => ({
          name,
          attributes,
          events,
          status,
          links,
        })),
        deep,
      ),
    );
    assertSilent('metrics and health', await metricsText());
    assertSilent('service', inspect(service, deep));
    assertSilent('shared state', inspect((globalThis as Record<symbol, unknown>)[Symbol.for('svc')], deep));
    assertSilent('exports', inspect(everything, deep));
  }

  const fields = ['**.customer.email', 'contacts[*].phone'];
  const crypto = { defaultKey: Buffer.alloc(32, 7).toString('base64'), salt: 'a salt for the canary' };

  it('is seen nowhere, by any strategy', async () => {
    run({ fields, crypto, detect: 'report' });
    const Person = marked({ phone: 'ENCRYPT', card: 'HASH', iban: 'EXCLUDE' });
    const thrown = await publishAll(Person, new Person());
    const { length } = sharedMemoryStore().all();
    assert.deepEqual(
      [length, thrown.length],
      [10, 2],
      'the key in clear and the failing expression are refused',
    );
    const [first] = sharedMemoryStore().all();
    assert.match(String(first?.record.value), /ENC\(.*HASH\(|HASH\(.*ENC\(/);
    assert.ok(spans.getFinishedSpans().length >= 10);
    await assertNothingShown(thrown);
  });

  it('is not in the files of the file broker', async () => {
    const path = join(folder, 'topics');
    run({ fields, crypto }, { client: 'file', file: { path } });
    const thrown = await publishAll(marked({ phone: 'HASH' }), {});
    const files = readdirSync(path).map((name) => readFileSync(join(path, name), 'utf8'));
    assert.ok(files.join('').split('\n').length > 8);
    assertSilent('files', files.join('\n'));
    await assertNothingShown(thrown);
  });

  const Marked = marked({});
  const failing: Readonly<
    Record<string, { pii: object; Person?: () => PersonClass; payload?: () => object; env?: object }>
  > = {
    'a getter throws': {
      pii: { fields, crypto },
      payload: () => ({
        person: new Marked(),
        get email() {
          return throwing();
        },
      }),
    },
    'a proxy throws': {
      pii: { fields, crypto },
      payload: () => new Proxy(new Marked(), { ownKeys: throwing }),
    },
    'toJSON throws': { pii: { fields, crypto }, payload: () => ({ person: new Marked(), toJSON: throwing }) },
    'the payload holds an error': {
      pii: { fields, crypto },
      payload: () => ({ person: new Marked(), error: new Error(canaries.email) }),
    },
    'the payload refers to itself': {
      pii: { fields, crypto },
      payload: () => {
        const person = new Marked() as Person & { self?: unknown };
        person.self = person;
        return person;
      },
    },
    'there is no key': { pii: { fields }, Person: () => marked({ email: 'ENCRYPT' }) },
    'there is no such key': {
      pii: { fields, crypto },
      Person: () => {
        const Person = marked({});
        PiiField({ strategy: 'ENCRYPT', keyId: 'nobody-has-it' })(Person.prototype, 'email');
        return Person;
      },
    },
  };
  for (const [what, { pii, Person, payload }] of Object.entries(failing)) {
    it(`is seen nowhere when ${what}`, async () => {
      run(pii);
      const One = Person?.() ?? Marked;
      const thrown = await publishAll(One, payload?.() ?? new One());
      assert.ok(thrown.length >= 3, `${thrown.length} refused`);
      await assertNothingShown(thrown);
    });
  }

  it('is seen nowhere when a masker shows it', async () => {
    for (const bad of [throwing, (text: string) => text, (text: string) => `<${text}>`])
      registerMasker('bad', bad);
    run({ fields: fields.map((path) => ({ path, masker: 'bad' })), crypto });
    await assertNothingShown(await publishAll(Marked, {}));
  });
});

describe('canary: the canary itself', () => {
  it('is found where it is published unprotected', () => {
    assert.throws(() => assertSilent('here', `to ${canaries.email}`));
    assert.throws(() => assertSilent('here', Buffer.from(canaries.name).toString('base64')));
  });
});
