import assert from 'node:assert/strict';
import { cpSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePorts } from '../../../scripts/services/ports.ts';
import { configuredTargets, eventCounts, plainSources } from '../../capture/source/maps/shop-source.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { startKafka } from '../../support/kafka.ts';
import { type Dependencies, installPacked } from '../../support/packed.ts';
import { startPostgres } from '../../support/postgres.ts';
import { requiring } from '../../support/requires.ts';
import { readEvents, writeFiles } from '../support/run-app.ts';
import { endOf, type RunningApp, startApp } from '../support/start-app.ts';
import { subject } from '../support/subject.ts';
import { configOf } from '../support/topic-config.ts';

const { version, otel, isMatrix } = await subject();
const example = resolve(import.meta.dirname, '../../../examples/nextjs');
const docs = readFileSync(resolve(import.meta.dirname, '../../../docs/nextjs.md'), 'utf8');
const next = 'node_modules/next/dist/bin/next';
const register = { NODE_OPTIONS: '--import svc/register' };

/** Once in the matrix: a build takes long, and Next.js hides which Node it is on. */
const suite = isMatrix && version.startsWith('26.') && otel === 3 ? requiring : () => {};

suite(['postgres', 'kafka'], 'examples/nextjs, with Drizzle', function () {
  this.timeout(400_000);
  let app: string;
  let standalone: string;
  let env: Record<string, string>;

  before(async () => {
    const { dependencies, devDependencies } = JSON.parse(
      readFileSync(join(example, 'package.json'), 'utf8'),
    ) as Record<string, Dependencies>;
    // The root of a project for Next.js: it runs where it is installed, and not below.
    app = realpathSync(installPacked('nextjs', { ...dependencies, ...devDependencies }));
    standalone = temporaryFolder('standalone');
    for (const path of ['.next', 'svc-topics', 'instrumentation.ts'])
      rmSync(join(app, path), { recursive: true, force: true });
    const isOwn = (path: string) => !/(?:node_modules|\.next|svc-topics|package.*\.json)$/.test(path);
    cpSync(example, app, { recursive: true, filter: isOwn });
    const server = await startPostgres();
    const url = await server.freshDatabase();
    await server.query(url, readFileSync(join(example, 'tables.sql'), 'utf8'));
    env = { DATABASE_URL: url, NEXT_TELEMETRY_DISABLED: '1', NO_COLOR: '1' };
    const { code, stderr } = await run(['node_modules/svc/bin/svc.cjs', 'outbox', 'migrate']);
    assert.equal(code, 0, stderr);
  });

  const run = (args: readonly string[], more: Record<string, string> = {}) =>
    endOf({ app, folder: app, files: {}, args, env: { ...env, ...more }, timeoutMs: 200_000 });

  async function build(): Promise<void> {
    // Also where NODE_OPTIONS stands in the environment of a container: nothing of svc runs in a build.
    const { code, stdout, stderr } = await run([next, 'build'], register);
    assert.equal(code, 0, `${stdout}\n${stderr}`);
    assert.doesNotMatch(stdout + stderr, /svc: /);
  }

  /** Orders by a route handler and by a server action, and looks for their events. */
  async function serves(
    folder: string,
    args: (port: string) => string[],
    more: Record<string, string> = {},
  ): Promise<void> {
    rmSync(join(folder, 'svc-topics'), { recursive: true, force: true });
    const [port, management] = (await freePorts(2)).map(String) as [string, string];
    const running = await startApp({
      ...{ app, folder, files: {}, args: args(port), timeoutMs: 120_000 },
      env: { ...env, PORT: port, MANAGEMENT_SERVER_PORT: management, ...more },
    });
    try {
      await running.waitFor(/Ready in/);
      // Next.js says that before it calls instrumentation.ts.
      await running.waitFor(/management on/);
      await orders(`http://127.0.0.1:${port}`, folder, running);
      const metrics = await fetch(`http://127.0.0.1:${management}/metrics`).then((answer) => answer.text());
      assert.match(metrics, /^svc_events_calls_total\{[^}]*ORDER_PLACED[^}]*\} 3$/m);
    } finally {
      const { stdout, stderr } = await running.kill('SIGTERM');
      // One process of it, and that one has the port that it was given.
      const places = [...(stdout + stderr).matchAll(/management on http:\/\/127\.0\.0\.1:(\d+)/g)];
      assert.deepEqual(
        places.map(([, each]) => each),
        [management],
        `${stdout}\n${stderr}`,
      );
      assert.doesNotMatch(stdout + stderr, /svc: (?:error|warn)/);
    }
  }

  async function orders(url: string, folder: string, running: RunningApp): Promise<void> {
    const post = (quantity: number) =>
      fetch(`${url}/api/orders`, {
        method: 'POST',
        headers: { 'x-correlation-id': `order-of-${quantity}` },
        body: JSON.stringify({ product: 'bell', quantity }),
      });
    const answers = [await post(1), await post(99), await post(2)];
    const bodies = await Promise.all(answers.map((answer) => answer.text()));
    const statuses = answers.map(({ status }) => status);
    assert.deepEqual(statuses, [201, 409, 201], bodies.join());
    const page = await fetch(url).then((answer) => answer.text());
    const form = new FormData();
    const [, action = ''] = /name="(\$ACTION_ID_\w+)"/.exec(page) ?? [];
    for (const [name, value] of Object.entries({ [action]: '', product: 'lamp', quantity: '3' }))
      form.set(name, value);
    const acted = await fetch(url, { method: 'POST', body: form });
    assert.ok(acted.ok, `${acted.status} ${action}`);
    assert.match(await acted.text(), /lamp/);

    const ends = Date.now() + 15_000;
    const ofType = (type: string) =>
      readEvents(join(folder, 'svc-topics')).filter(({ value }) => value.eventType === type);
    // Of the server component: the page, and what the action renders again.
    const areThere = () => ofType('ORDER_PLACED').length >= 3 && ofType('ORDERS_LISTED').length >= 2;
    while (!areThere() && Date.now() < ends) await delay(100);
    const events = ofType('ORDER_PLACED');
    assert.deepEqual(
      ofType('ORDERS_LISTED').map(({ value }) => value.payload.newest),
      [events[1]?.value.payload.id, events[2]?.value.payload.id],
    );
    const { stderr } = running.child.exitCode === null ? { stderr: '' } : await running.ended;
    const seen = events.map(({ topic, value: { eventType, payload, metadata } }) => [
      ...[topic, eventType, payload.product, payload.quantity],
      ...[metadata.correlationId, metadata.clientIp],
    ]);
    const expected = (...own: unknown[]) => ['orders.events.v1', 'ORDER_PLACED', ...own, '127.0.0.1'];
    assert.deepEqual(
      seen,
      [expected('bell', 1, 'order-of-1'), expected('bell', 2, 'order-of-2'), expected('lamp', 3, null)],
      stderr,
    );
    for (const { key, value } of events) assert.equal(key, String(value.payload.id));
  }

  it('next dev', () => serves(app, (port) => [next, 'dev', '-p', port], register));

  it('next build, then next start', async () => {
    await build();
    await serves(app, (port) => [next, 'start', '-p', port], register);
  });

  it('the standalone output, elsewhere', async () => {
    cpSync(join(app, '.next/standalone'), standalone, { recursive: true, verbatimSymlinks: true });
    await serves(standalone, () => ['--import', 'svc/register', 'server.js']);
  });

  it('the standalone output, with Kafka', async () => {
    const kafka = await startKafka();
    const topic = `next-${process.pid}`;
    await kafka.createTopic(topic);
    const [port] = (await freePorts(1)).map(String) as [string];
    const running = await startApp({
      ...{ app, folder: standalone, files: {}, timeoutMs: 60_000 },
      args: ['--import', 'svc/register', 'server.js'],
      env: { ...env, PORT: port, KAFKA_BROKERS: kafka.brokers.join(), SVC_BROKER_TOPIC: topic },
    });
    try {
      await running.waitFor(/Ready in/);
      const body = JSON.stringify({ product: 'bell', quantity: 4 });
      const answer = await fetch(`http://127.0.0.1:${port}/api/orders`, { method: 'POST', body });
      assert.equal(answer.status, 201);
      const [record] = await kafka.read(topic, { count: 1 });
      assert.match(String(record?.value), /"product":"bell","quantity":4/);
    } finally {
      const { stderr } = await running.kill('SIGTERM');
      assert.doesNotMatch(stderr, /svc: (?:error|warn)/);
    }
  });

  it('every form of the other bundlers, by Turbopack', async () => {
    const { 'package.json': _, ...files } = plainSources;
    writeFiles(app, {
      ...files,
      'forms.config.json': JSON.stringify(configOf(configuredTargets)),
      'app/api/forms/route.ts':
        "export const GET = async () => { await import('../../../src/main'); return new Response(); };",
    });
    env = { ...env, SVC_CONFIG: 'forms.config.json' };
    try {
      for (const mode of ['dev', 'start']) {
        if (mode === 'start') await build();
        rmSync(join(app, 'svc-topics'), { recursive: true, force: true });
        const [port] = (await freePorts(1)).map(String) as [string];
        const running = await startApp({
          ...{ app, folder: app, files: {}, timeoutMs: 60_000 },
          ...{ args: [next, mode, '-p', port], env: { ...env, ...register } },
        });
        await running.waitFor(/Ready in/);
        const answer = await fetch(`http://127.0.0.1:${port}/api/forms`);
        await running.waitFor(/RESULTS/);
        const { topics, stderr } = await running.kill('SIGTERM');
        assert.equal(answer.status, 200, stderr);
        const seen: Record<string, number> = {};
        for (const { value } of topics.events ?? []) seen[value.eventType] = (seen[value.eventType] ?? 0) + 1;
        assert.deepEqual(seen, eventCounts, `${mode}\n${stderr}`);
      }
    } finally {
      delete env.SVC_CONFIG;
      for (const path of ['src', 'app/api/forms', 'svc.manifest.json'])
        rmSync(join(app, path), { recursive: true, force: true });
    }
  });

  it('instrumentation.ts, without a flag, both ways', async () => {
    const [, text] = /```ts\n(\/\/ instrumentation\.ts\n[\s\S]*?)```/.exec(docs) ?? [];
    writeFileSync(join(app, 'instrumentation.ts'), text ?? assert.fail('docs/nextjs.md has no such block'));
    await build();
    await serves(app, (port) => [next, 'start', '-p', port]);
    rmSync(standalone, { recursive: true });
    cpSync(join(app, '.next/standalone'), standalone, { recursive: true, verbatimSymlinks: true });
    await serves(standalone, () => ['server.js']);
  });
});
