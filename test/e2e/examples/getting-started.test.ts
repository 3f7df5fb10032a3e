import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { runCommand } from '../../../scripts/services/commands.ts';
import { freePorts } from '../../../scripts/services/ports.ts';
import { startKafka, type TestKafka } from '../../support/kafka.ts';
import { requiring } from '../../support/requires.ts';
import { autoInstrumentedApp } from '../support/apps.ts';
import { freshFolder, hostEnvironment, writeFiles } from '../support/run-app.ts';
import { type RunningApp, startApp } from '../support/start-app.ts';
import { subject } from '../support/subject.ts';

const tested = await subject();
const page = readFileSync(resolve(import.meta.dirname, '../../../docs/getting-started.md'), 'utf8');
const program = resolve(import.meta.dirname, '../../../bin/svc.cjs');

// TypeScript that Node runs itself.
(tested.stripsTypes ? requiring : () => {})('kafka', 'docs/getting-started.md, word for word', function () {
  this.timeout(180_000);
  let kafka: TestKafka;
  let app: string;
  let folder: string;
  let port: string;
  const exported: Record<string, string> = {};

  before(async () => {
    kafka = await startKafka();
    app = autoInstrumentedApp(tested.otel);
    folder = join(freshFolder(app, 'getting-started'), 'bikes');
    mkdirSync(folder);
    [port] = (await freePorts(1)).map(String) as [string];
  });

  /** The lines of shell below a heading. */
  function linesBelow(title: string): string[] {
    const section = page.split(/^## /m).find((each) => each.startsWith(`${title}\n`)) ?? assert.fail(title);
    return [...section.matchAll(/```sh\n([\s\S]*?)```/g)].flatMap(([, text = '']) => text.trim().split('\n'));
  }

  /** What a line of shell says on standard output, here: in a folder in which svc is installed, and at a port of its own. */
  async function says(line: string): Promise<string> {
    const here = line
      .replace(/^mkdir -p bikes\/src && cd bikes/, 'mkdir -p src')
      .replace('npx --no svc', `'${process.execPath}' '${program}'`)
      .replace(':3000', `:${port}`);
    const { code, stdout, stderr } = await runCommand('sh', ['-c', here], {
      ...{
        cwd: folder,
        timeoutMs: 60_000,
        env: { ...hostEnvironment(), PATH: process.env.PATH, ...exported },
      },
    });
    assert.equal(code, 0, `${line}: ${stdout}\n${stderr}`);
    return stdout.toString();
  }

  async function started(): Promise<RunningApp> {
    const { scripts } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const [node, ...args] = scripts['start:svc'].split(' ');
    assert.equal(node, 'node');
    const env = { PORT: port, ...exported };
    const running = await startApp({ app, folder, files: {}, args, env, timeoutMs: 90_000 });
    await running.waitFor(/listening/);
    return running;
  }

  /** The one event that the commands of the page send and show. */
  async function event(): Promise<{
    payload: unknown;
    metadata: { trace: { parentSpanId: string | null } };
  }> {
    const running = await started();
    try {
      const [request = '', tail = ''] = linesBelow('svc').slice(-2);
      assert.equal(await says(request), '{"id":1,"product":"bell","email":"jane.doe@example.com"}');
      return JSON.parse(await says(`${tail} --json`)).value;
    } finally {
      await running.kill('SIGTERM');
    }
  }

  it('an application without svc, and svc with it: events in files', async () => {
    const [make] = linesBelow('An application') as [string];
    await says(make);
    const files = [...page.matchAll(/```ts\n\/\/ (\S+)\n([\s\S]*?)```/g)];
    writeFiles(folder, Object.fromEntries(files.map(([, path = '', text = '']) => [path, text])));
    const [install = '', init = '', check = ''] = linesBelow('svc');
    assert.match(install, /^npm install .*svc-0\.1\.0\.tgz @opentelemetry\/api$/);
    await says(init);
    assert.match(await says(check), /\nnext: npm run start:svc\n$/);
    const { payload, metadata } = await event();
    assert.deepEqual(payload, { orderId: 1, product: 'bell' });
    assert.equal(metadata.trace.parentSpanId, null);
  });

  it('in Kafka', async () => {
    const [address, , ...more] = linesBelow('Kafka');
    assert.equal(address, 'export KAFKA_BROKERS=localhost:9092');
    const doctor = more.at(-1) ?? '';
    exported.KAFKA_BROKERS = kafka.brokers.join(',');
    await kafka.createTopic('bikes.events.v1');
    assert.match(await says(doctor), /bikes\.events\.v1/);
    assert.deepEqual((await event()).payload, { orderId: 1, product: 'bell' });
    assert.equal((await kafka.read('bikes.events.v1')).length, 1);
  });

  it('with its trace', async () => {
    const [install, sdk] = linesBelow('The trace') as [string, string];
    assert.match(install, /^npm install (?:@opentelemetry\/[\w-]+ ?)+$/);
    const [, name = '', value = ''] = /^export (\w+)=(\w+)$/.exec(sdk) ?? [];
    exported[name] = value;
    await event();
    const [, last] = await kafka.read('bikes.events.v1', { count: 2 });
    // The span of the request.
    assert.match(JSON.parse(last?.value ?? '').metadata.trace.parentSpanId, /^[0-9a-f]{16}$/);
  });
});
