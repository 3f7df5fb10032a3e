import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { trace } from '@opentelemetry/api';
import { type SpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import pino from 'pino';
import { publishEvent } from '../../src/capture/declare/publish-event.ts';
import type { Logger } from '../../src/observe/logger.ts';
import { onEventLost } from '../../src/publish/api/caller-wait.ts';
import { registerBackupStrategy } from '../../src/publish/tier.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

const nowhere = { client: 'kafkajs', bootstrapServers: ['127.0.0.1:1'] };

/** The application keeps its request here, and a mixin of its logger puts it into every line. */
const requests = new AsyncLocalStorage<string>();

describe('async mode: the context of the call is alive in all that is done for its event', function () {
  this.timeout(20_000);
  let svc: StartedSvc;
  let lines: { msg: string; request?: string }[];
  let seen: [what: string, request: string | undefined][];
  let isBackupBroken: boolean;
  let undo: (() => void)[];

  const note = (what: string): void => void seen.push([what, requests.getStore()]);
  const spans: SpanProcessor = {
    onStart: () => note('span starts'),
    onEnd: () => note('span ends'),
    forceFlush: async () => {},
    shutdown: async () => {},
  };

  function pinoLogger(): Logger {
    const log = pino(
      { level: 'debug', mixin: () => ({ request: requests.getStore() }) },
      { write: (line: string) => void lines.push(JSON.parse(line)) },
    );
    const at =
      (level: 'debug' | 'info' | 'warn' | 'error'): Logger['info'] =>
      (message, fields = {}) =>
        log[level](fields, message);
    return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  }

  beforeEach(() => {
    lines = [];
    seen = [];
    isBackupBroken = false;
    trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [spans] }));
    undo = [
      () => trace.disable(),
      onEventLost(() => note('lost')),
      registerBackupStrategy({
        name: 'of the application',
        async store() {
          note('backup begins');
          await sleep(1);
          note('backup ends');
          if (isBackupBroken) throw new Error('broken');
        },
      }),
    ];
  });
  afterEach(async () => {
    await svc.end();
    for (const each of undo) each();
  });

  const begin = (broker: object): (() => Promise<string>) => {
    const retry = { maxAttempts: 1, initialInterval: 20 };
    svc = startSvc({ asyncMode: true, ...broker }, { logger: pinoLogger(), retry });
    return publishEvent({ eventType: 'ASKED', key: "'one'" }, async () => 'done');
  };
  const settled = async (): Promise<void> => {
    for (const end = Date.now() + 15_000; svc.service.pending() > 0; await sleep(5))
      assert.ok(Date.now() < end, 'events without an outcome');
  };
  /** Calls at once, each in a request of its own, so that their events share a batch. */
  const call = async (order: () => Promise<string>, ...names: string[]): Promise<void> => {
    await Promise.all(names.map((name) => requests.run(name, () => order())));
    await settled();
  };
  const of = (what: string): (string | undefined)[] =>
    seen.filter(([each]) => each === what).map(([, request]) => request);
  const linesLike = (text: RegExp): (string | undefined)[] =>
    lines.filter(({ msg }) => text.test(msg)).map(({ request }) => request);

  it('published: its span', async () => {
    await call(begin({ client: 'memory' }), 'a', 'b', 'c');
    assert.deepEqual(of('span starts'), ['a', 'b', 'c']);
    assert.deepEqual(of('span ends'), ['a', 'b', 'c']);
  });

  it('kept: the lines of retry and backup, the backup of the application, its span', async () => {
    const order = begin(nowhere);
    await call(order, 'a', 'b');
    assert.deepEqual(linesLike(/^send failed, retry 1/).sort(), ['a', 'b']);
    // Of events that end alike, the first one is named.
    assert.deepEqual(linesLike(/^event kept in the backup/), ['a']);
    for (const what of ['backup begins', 'backup ends', 'span ends'])
      assert.deepEqual(of(what).sort(), ['a', 'b']);
    assert.deepEqual(of('lost'), []);
  });

  it('lost: the lines of the broken backup and of the loss, the listener, its span', async () => {
    isBackupBroken = true;
    const order = begin({ ...nowhere, backup: { localEnabled: false } });
    await call(order, 'a', 'b');
    assert.deepEqual(linesLike(/^backup "of the application" failed/), ['a']);
    assert.deepEqual(linesLike(/^event lost/), ['a']);
    assert.deepEqual(of('lost').sort(), ['a', 'b']);
    assert.deepEqual(of('span ends').sort(), ['a', 'b']);
  });

  it('refused: the line that says so, its span', async () => {
    begin({ client: 'memory' });
    const order = publishEvent({ eventType: 'ODD' }, async () => ({
      get size(): number {
        throw new Error('not now');
      },
    }));
    await call(order as () => Promise<never>, 'a');
    assert.deepEqual(linesLike(/^event refused/), ['a']);
    assert.deepEqual(of('span ends'), ['a']);
  });

  it('what svc does for nobody has the context of nobody', async () => {
    await call(begin(nowhere), 'a');
    const others = lines.filter(({ msg }) => !/^(send failed|event kept|backup)/.test(msg));
    assert.ok(others.length > 0);
    assert.deepEqual([...new Set(others.map(({ request }) => request))], [undefined], JSON.stringify(others));
  });
});
