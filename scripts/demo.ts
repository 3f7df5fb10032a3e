import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { startOtlpReceiver } from '../test/support/otlp-receiver.ts';
import { traceLines } from './demo-trace.ts';

// `npm run demo`: an application that knows nothing of svc, started under the preload, publishes events.
// On the `file` broker by default; `npm run demo -- --kafka` on a real Kafka, with an outage; `-- --outbox` with SQLite;
// `-- --keep` stays up, with traffic, to look at the console.
const root = resolve(import.meta.dirname, '..');
const example = join(root, 'examples/orders');
/** Of the first request, as another service would send it. */
const trace = { id: '4bf92f3577b34da6a3ce929d0e0e4736', parentSpanId: '00f067aa0ba902b7' };
const onKafka = process.argv.includes('--kafka');
const bold = (text: string) => (process.stdout.isTTY ? `\x1b[1m${text}\x1b[0m` : text);
const say = (text = '') => process.stdout.write(`${text}\n`);
const title = (text: string) => say(`\n${bold(`== ${text}`)}`);

if (process.argv.includes('--help')) {
  say(
    'npm run demo [-- --kafka | --outbox] [--keep]\n\n  --kafka    publish to a real Apache Kafka, which is fetched and started, and show an outage\n  --outbox   store events in the transactions of a shop on SQLite, of which one is rolled back\n  --keep     stay up until Ctrl+C, with traffic, to look at the console',
  );
  process.exit(0);
}

interface Application {
  readonly process: ChildProcess;
  readonly address: string;
  readonly management: string;
  /** svc's own lines. */
  readonly lines: string[];
}

/** Starts the example as its team would: only `--import svc/register` is new. */
function startApplication(env: NodeJS.ProcessEnv): Promise<Application> {
  const child = spawn(process.execPath, ['--import', 'svc/register', 'src/server.ts'], {
    cwd: example,
    env: { ...process.env, PORT: '0', MANAGEMENT_SERVER_PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  return new Promise((ready, failed) => {
    let address: string | undefined;
    let management: string | undefined;
    const take = (chunk: Buffer) => {
      for (const line of chunk.toString().split('\n').filter(Boolean)) {
        lines.push(line);
        address ??= /listening on (http\S+)/.exec(line)?.[1];
        management ??= /management\D*(http:\/\/[\w.:]+)/.exec(line)?.[1];
        if (address !== undefined && management !== undefined)
          ready({ process: child, address, management, lines });
      }
    };
    child.stdout.on('data', take);
    child.stderr.on('data', take);
    child.once('exit', (code) =>
      failed(new Error(`the application ended with ${code}:\n${lines.join('\n')}`)),
    );
  });
}

async function sendTraffic(address: string): Promise<void> {
  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    fetch(address + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-user-id': 'u-17', ...headers },
      body: JSON.stringify(body),
    });
  const traceparent = `00-${trace.id}-${trace.parentSpanId}-01`;
  for (const [index, product] of ['bicycle', 'helmet', 'bell', 'lamp'].entries()) {
    await post(
      '/orders',
      { customer: 'Ada', product, quantity: index + 1 },
      index === 0 ? { traceparent } : {},
    );
  }
  await post('/orders', { customer: 'Ada', product: 'lock', quantity: 0 }); // Refused with 400: a failed call publishes nothing.
  await post('/orders/2/cancel', { reason: 'ordered twice' });
}

async function until<T>(
  what: string,
  look: () => Promise<T | undefined> | T | undefined,
  timeoutMs = 15_000,
): Promise<T> {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (Date.now() > end) throw new Error(`gave up waiting for ${what} after ${timeoutMs / 1000} s`);
    await new Promise((resume) => setTimeout(resume, 100));
  }
}

/** The counters that matter here, and those of trouble summed up: all of them are one line per event type. */
function counts(metrics: string): { published: number; lines: string[] } {
  const counters = metrics
    .split('\n')
    .filter((line) => /^svc_events_(published|refused|lost)_total\{/.test(line));
  const isPublished = (line: string) => line.startsWith('svc_events_published');
  const sum = (lines: readonly string[]) =>
    lines.reduce((total, line) => total + Number(line.split(' ').at(-1)), 0);
  const trouble = counters.filter((line) => !isPublished(line));
  const published = counters.filter(isPublished);
  return { published: sum(published), lines: [...published, `refused or lost: ${sum(trouble)}`] };
}

async function main(): Promise<void> {
  if (!existsSync(join(root, 'dist/preload.cjs'))) {
    title('Building svc');
    const { status } = spawnSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: 'inherit' });
    if (status !== 0) throw new Error('the build failed');
  }
  if (process.argv.includes('--outbox')) {
    (await import('./demo-outbox.ts')).showOutbox(say, title);
    return;
  }
  const folder = mkdtempSync(join(tmpdir(), 'svc-demo-'));
  const topics = join(folder, 'topics');
  const backupFolder = join(folder, 'dlq-backup');
  const collector = await startOtlpReceiver();
  const env: NodeJS.ProcessEnv = {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint,
    OTEL_BSP_SCHEDULE_DELAY: '100',
    ORDERS_DB: join(folder, 'orders.db'),
    SVC_BROKER_FILE_PATH: topics,
    SVC_BROKER_DLQ_BACKUP_PATH: backupFolder,
  };
  const kafka = onKafka ? await (await import('./demo-kafka.ts')).startDemoKafka(say) : undefined;
  if (kafka !== undefined) env.KAFKA_BROKERS = kafka.brokers.join(',');
  let application: Application | undefined;
  try {
    title('An application without a line of svc in its source: examples/orders');
    say('   node --import svc/register src/server.ts');
    application = await startApplication(env);
    const { address, management, lines } = application;

    title('Six HTTP requests');
    await sendTraffic(address);
    say('   four orders, one with quantity 0 (the application refuses it: no event), one cancellation');
    say(`   the first one belongs to the trace ${trace.id}`);

    title('What svc patched');
    const report = await until('the patch report', () =>
      lines.find((line) => line.includes('OrderService.prototype.create')),
    );
    say(
      lines
        .slice(lines.indexOf(report) - 1)
        .filter((line) => !/listening|management/.test(line))
        .map((line) => `   ${line}`)
        .join('\n'),
    );

    title('An event');
    const topic = 'orders.events.v1';
    const record =
      kafka === undefined
        ? await until(
            'an event',
            () => readFileSync(join(topics, `${topic}.ndjson`), 'utf8').split('\n')[0] || undefined,
          )
        : await kafka.readFirst(topic);
    say(JSON.stringify(JSON.parse(record), null, 2).replace(/^/gm, '   '));

    title('The trace of that request, as the collector of the demo has it');
    // The request, and an event on each of two topics.
    const spans = await until('the spans', () => {
      const found = traceLines(collector.spans, trace.id);
      return found.length >= 3 ? found : undefined;
    });
    say(spans.map((line) => `   ${line}`).join('\n'));

    title(`What ${management}/metrics counts`);
    const metrics = await until('the counts', async () => {
      const found = counts(await (await fetch(`${management}/metrics`)).text());
      return found.published >= 10 ? found.lines : undefined;
    });
    say(metrics.map((line) => `   ${line}`).join('\n'));
    const health = await (await fetch(`${management}/actuator/health/svc`)).text();
    say(`   health: ${health}`);

    say(`   the same for people, and live: ${management}/actuator/svc`);

    if (kafka !== undefined) {
      const { showOutage } = await import('./demo-outage.ts');
      const topics = ['orders.events.v1', 'stock.events.v1'];
      await showOutage({ kafka, topics, address, management, backupFolder, say, title, until });
    }

    title('Where to look next');
    say('   examples/orders/svc.config.yaml   which functions publish what');
    say('   docs/capture.md                   every form of function that can be captured');
    say(
      '   docs/recovery.md                  what happens when a broker fails, and how to get events back by hand',
    );
    say(
      onKafka
        ? '   npm run demo                      the same on files'
        : '   npm run demo -- --kafka           the same on a real Apache Kafka',
    );
    say('   npm run demo -- --outbox          events in the transactions of the application');
    if (!process.argv.includes('--keep')) {
      say('   npm run demo -- --keep            stays up, with traffic, to look at the console');
      return;
    }
    title(`Up until Ctrl+C: ${management}/actuator/svc`);
    await keepUp(address);
  } finally {
    await end(application?.process);
    await kafka?.stop();
    await collector.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A few requests a second, now more and now less, until somebody ends it. */
async function keepUp(address: string): Promise<void> {
  let isOver = false;
  for (const signal of ['SIGINT', 'SIGTERM'])
    process.once(signal, () => {
      isOver = true;
    });
  for (let turn = 0; !isOver; turn++) {
    // An order that cannot be stored is no reason to end.
    await sendTraffic(address).catch(() => {});
    await new Promise((resume) => setTimeout(resume, 600 + 400 * Math.sin(turn / 40)));
  }
}

async function end(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined || child.exitCode !== null) return;
  // An end that was asked for is no failure.
  child.removeAllListeners('exit');
  const ended = new Promise((resume) => child.once('exit', resume));
  child.kill('SIGTERM');
  await Promise.race([ended, new Promise((resume) => setTimeout(resume, 12_000).unref())]);
}

main().catch((error: unknown) => {
  process.stderr.write(`\ndemo: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
