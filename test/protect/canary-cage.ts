import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { inspect } from 'node:util';
import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { sharedMemoryStore } from '../../src/adapters/memory/memory-broker.ts';
import { formatProblem } from '../../src/config/check/check.ts';
import { loadConfig } from '../../src/config/read/load.ts';
import * as consumer from '../../src/consumer.ts';
import * as everything from '../../src/index.ts';
import { type Logger, useLogger } from '../../src/observe/logger.ts';
import { type Outcome, outcomes } from '../../src/observe/outcomes.ts';
import type { Producer } from '../../src/publish/publisher.ts';
import { type Service, start } from '../../src/start/start.ts';
import { forgetDeclarations } from '../capture/forget-declarations.ts';
import { temporaryFolder } from '../support/folders.ts';
import { assertSilent, canaries, type Person, type PersonClass, throwing } from './canary.ts';
import { forgetMarks } from './forget-marks.ts';

const { publishEvent } = everything;

/** A running svc, and everything of it that can be looked at from outside. */
export interface CanaryCage {
  /** Of this test file; topics and backups of a run belong below it. */
  readonly folder: string;
  readonly log: readonly string[];
  readonly spans: InMemorySpanExporter;
  /** `more`: further settings below `svc`, beside `pii` and `broker`. */
  run(pii: object, broker?: object, more?: object): Service;
  /** Publishes in every way there is; gives what was thrown. */
  publishAll(Person: PersonClass, failing: object): Promise<unknown[]>;
  /** Waits until health is so. */
  healthIs(status: 'UP' | 'DOWN'): Promise<void>;
  /** What the counters say. */
  counts(): Promise<Record<Outcome | 'calls', number>>;
  /** Logs, spans, metrics, health, errors, memory topics, and `inspect` of everything that is exposed. */
  assertNothingShown(thrown: readonly unknown[], secrets?: readonly string[]): Promise<void>;
}

/** How many events `publishAll` publishes; the last of them can never be made. */
export const eventCount = 12;

/** Call it inside a `describe`. */
export function openCanaryCage(): CanaryCage {
  const folder = temporaryFolder('canary');
  const spans = new InMemorySpanExporter();
  const tracers = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter: spans })] });
  const log: string[] = [];
  let service: Service | undefined;

  before(() => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    trace.setGlobalTracerProvider(tracers);
  });
  after(async () => {
    trace.disable();
    context.disable();
    await tracers.shutdown();
  });
  beforeEach(() => {
    log.length = 0;
    spans.reset();
    sharedMemoryStore().clear();
    forgetMarks();
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
  const logger = { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };

  async function get(path: string): Promise<string> {
    for (let tries = 0; tries < 200; tries++) {
      const url = log.join('\n').match(/http:\/\/127\.0\.0\.1:\d+\/metrics/)?.[0];
      if (url !== undefined) return (await fetch(url.replace('/metrics', path))).text();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return assert.fail('no management server');
  }

  return {
    folder,
    log,
    spans,

    run(pii, broker = { client: 'memory' }, more = {}) {
      const { config, problems } = loadConfig({
        cwd: folder,
        env: {},
        code: {
          svc: { broker: { topic: 'canary', ...broker }, log: { level: 'debug' }, pii, ...more },
          management: { server: { port: 0 } },
        },
      });
      assert.deepEqual(problems.map(formatProblem), []);
      useLogger(logger);
      service = start(config);
      return service;
    },

    async publishAll(Person, failing) {
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
      await service?.finish(2000);
      return thrown;
    },

    async healthIs(status) {
      let health = '';
      for (let tries = 0; tries < 400; tries++) {
        health = await get('/actuator/health/svc');
        if (JSON.parse(health).status === status) return;
        await new Promise((resolve) => setTimeout(resolve, 25));
      }
      assert.fail(`health is not ${status}: ${health}`);
    },

    async counts() {
      const text = await get('/metrics');
      const sum = (name: string): number =>
        [...text.matchAll(new RegExp(`^svc_events_${name}_total\\{.*\\} (\\d+)$`, 'gm'))].reduce(
          (total, [, count]) => total + Number(count),
          0,
        );
      const names = [...outcomes, 'calls'] as const;
      return Object.fromEntries(names.map((name) => [name, sum(name)])) as Record<Outcome | 'calls', number>;
    },

    async assertNothingShown(thrown, secrets = []) {
      const deep = {
        depth: 30,
        showHidden: true,
        getters: true,
        maxArrayLength: null,
        maxStringLength: null,
      };
      const silent = (where: string, content: string): void => assertSilent(where, content, secrets);
      const records = sharedMemoryStore().all();
      silent(
        'topic',
        records.map(({ record }) => JSON.stringify({ ...record, value: String(record.value) })).join('\n'),
      );
      silent('log', log.join('\n'));
      silent(
        'thrown errors',
        thrown.map((error) => `${inspect(error, deep)} ${JSON.stringify(error)}`).join('\n'),
      );
      const ended = spans
        .getFinishedSpans()
        .map(({ name, attributes, events, status, links }) => ({ name, attributes, events, status, links }));
      silent('spans', inspect(ended, deep));
      silent('metrics', await get('/metrics'));
      silent('health and info', (await get('/actuator/health/svc')) + (await get('/actuator/info')));
      silent('service', inspect(service, deep));
      silent('shared state', inspect(Reflect.get(AsyncLocalStorage, Symbol.for('svc')), deep));
      silent('exports', inspect([everything, consumer], deep));
    },
  };
}
