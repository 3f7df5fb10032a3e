import { spawn, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { type OtlpReceiver, startOtlpReceiver } from '../test/support/otlp-receiver.ts';
import { type DemoBroker, type DemoRecord, startRealKafka, startStandIn } from './demo-broker.ts';
import {
  accountLines,
  accountOf,
  idsIn,
  type Ledger,
  ledgerTable,
  type Moment,
  problemsOf,
  readLedger,
} from './demo-ledger.ts';
import { traceLines } from './demo-trace.ts';
import { Unavailable } from './services/unavailable.ts';

// `npm run demo`: an application that knows nothing of svc publishes events; the broker fails and comes back; nothing is lost.
// It fails unless every event is accounted for.
const HELP = `npm run demo [-- --kafka | --outbox] [--keep]

  --kafka    publish to a real Apache Kafka, which is downloaded and started (needs Java and Maven, or Docker)
  --outbox   store events in the transactions of a shop on SQLite, of which one is rolled back
  --keep     stay up until Ctrl+C, with traffic, to look at the console`;

const root = resolve(import.meta.dirname, '..');
/** Of the first request, as another service would send it. */
const trace = { id: '4bf92f3577b34da6a3ce929d0e0e4736', parentSpanId: '00f067aa0ba902b7' };
const topics = ['orders.events.v1', 'stock.events.v1'];
const customer = { customer: 'Ada Lovelace', email: 'ada.lovelace@example.com' };
const ordersDuringOutage = 6;

const bold = (text: string) => (process.stdout.isTTY ? `\x1b[1m${text}\x1b[0m` : text);
const say = (text = '') => process.stdout.write(`${text}\n`);
const title = (text: string) => say(`\n${bold(text)}`);
const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;

interface Application {
  readonly management: string;
  /** Posts an order or what becomes of one; resolves with the answer, whatever its status is. */
  post(path: string, body: object, headers?: Readonly<Record<string, string>>): Promise<Response>;
  ledger(): Promise<Ledger>;
  end(): Promise<void>;
}

/** The example in a folder of its own, with the packages that it names and with `more`. svc is this checkout. */
function copyExample(name: string, to: string, more: Readonly<Record<string, string>> = {}): string {
  const from = join(root, 'examples', name);
  const isMade = /node_modules|svc-topics|\.db|\.tgz/;
  cpSync(from, to, { recursive: true, filter: (path) => !isMade.test(path.slice(from.length)) });
  const manifest = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8'));
  const dependencies = { ...manifest.dependencies, ...more };
  writeFileSync(join(to, 'package.json'), JSON.stringify({ ...manifest, dependencies }));
  for (const each of Object.keys(dependencies)) {
    const link = join(to, 'node_modules', each);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(each === 'svc' ? root : join(root, 'node_modules', each), link, 'junction');
  }
  return to;
}

/** Starts the example as its team would: only `--import svc/register` is new. */
async function startApplication(cwd: string, env: NodeJS.ProcessEnv): Promise<Application> {
  const child = spawn(process.execPath, ['--import', 'svc/register', 'src/server.ts'], {
    cwd,
    env: { ...process.env, PORT: '0', MANAGEMENT_SERVER_PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  const { address, management } = await new Promise<Record<'address' | 'management', string>>(
    (ready, failed) => {
      const take = (chunk: Buffer): void => {
        said += chunk;
        const [, address] = /listening on (http\S+)\n/.exec(said) ?? [];
        const [, management] = /management\D*(http:\/\/[\w.:]+)/.exec(said) ?? [];
        if (address === undefined || management === undefined) return;
        ready({ address, management });
        for (const stream of [child.stdout, child.stderr]) stream.off('data', take).resume();
      };
      child.stdout.on('data', take);
      child.stderr.on('data', take);
      child.once('exit', (code) => failed(new Error(`the application ended with ${code}:\n${said}`)));
    },
  );
  return {
    management,
    post: (path, body, headers = {}) =>
      fetch(address + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-user-id': 'u-17', ...headers },
        body: JSON.stringify(body),
      }),
    ledger: () => readLedger(management),
    async end() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      // It ends as it should.
      child.removeAllListeners('exit');
      const ended = new Promise((resume) => child.once('exit', resume));
      child.kill('SIGTERM');
      await Promise.race([ended, new Promise((resume) => setTimeout(resume, 12_000).unref())]);
    },
  };
}

/** An order that the application accepts. */
async function order(application: Application, product: string, headers = {}): Promise<number> {
  const answer = await application.post('/orders', { ...customer, product, quantity: 1 }, headers);
  if (!answer.ok) throw new Error(`the application answered ${answer.status}`);
  return ((await answer.json()) as { id: number }).id;
}

/** Four orders, of which the first belongs to the trace; one that the application refuses, without an event; one cancellation. */
async function sendTraffic(application: Application): Promise<void> {
  const traceparent = `00-${trace.id}-${trace.parentSpanId}-01`;
  const [, id] = [
    await order(application, 'bicycle', { traceparent }),
    await order(application, 'helmet'),
    await order(application, 'bell'),
    await order(application, 'lamp'),
  ];
  await application.post('/orders', { ...customer, product: 'lock', quantity: 0 });
  await application.post(`/orders/${id}/cancel`, { reason: 'ordered twice' });
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
    if (Date.now() > end) throw new Error(`gave up waiting for ${what} after ${seconds(timeoutMs)}`);
    await new Promise((resume) => setTimeout(resume, 100));
  }
}

const settled = (application: Application, timeoutMs?: number): Promise<Ledger> =>
  until(
    'an outcome of every event',
    async () => {
      const ledger = await application.ledger();
      return ledger.calls > 0 && ledger.inFlight === 0 ? ledger : undefined;
    },
    timeoutMs,
  );

interface Scene {
  readonly application: Application;
  readonly broker: DemoBroker;
  readonly collector: OtlpReceiver;
  readonly backupFolder: string;
}

function introduce(example: string, broker: DemoBroker): void {
  const lines = globSync('src/*.ts', { cwd: example }).flatMap((file) =>
    readFileSync(join(example, file), 'utf8').trimEnd().split('\n'),
  );
  const own = lines.filter((line) => /svc|kafka|opentelemetry/i.test(line)).length;
  const config = readFileSync(join(example, 'svc.config.yaml'), 'utf8');
  const functions = [...config.matchAll(/function: (\S+)/g)].map(([, name = '']) => name);
  say(bold('An unchanged application, started with one flag: node --import svc/register src/server.ts'));
  say(`   examples/orders: ${lines.length} lines, ${own} of them mention svc or Kafka.`);
  say(`   svc.config.yaml: ${functions.length} functions, such as ${functions[0]}.`);
  say(`   Kafka: ${broker.is}.`);
}

/** One event beside its request and its trace. */
async function showEvent({ application, broker, collector }: Scene): Promise<Moment> {
  title('A request becomes an event, and personal data is masked');
  await sendTraffic(application);
  const ledger = await settled(application);
  const records = await broker.read(topics, ledger.published);
  const events = records.map(({ key, value }) => ({ key, ...(JSON.parse(value) as Event) }));
  const event = events.find(
    ({ eventType, metadata }) => eventType === 'ORDER_CREATED' && metadata.trace.traceId === trace.id,
  );
  if (event === undefined) throw new Error('the event of the first request is not in its topic');
  const { actor, correlationId } = event.metadata;
  const { traceId, spanId, parentSpanId } = event.metadata.trace;
  const { id, customer: name, email, ...others } = event.payload;
  say(`   POST /orders      ${JSON.stringify(customer).slice(0, -1)}, ...}`);
  say(`   ${event.eventType}, in orders.events.v1 with key ${event.key}:`);
  say(`      payload     ${JSON.stringify({ id, customer: name, email }).slice(0, -1)},`);
  say(`                   ${JSON.stringify(others).slice(1)}`);
  say(`      metadata    userId ${actor.userId}, correlationId ${correlationId}`);
  say(`                  traceId ${traceId}, spanId ${spanId}`);
  say('   The trace, as an OpenTelemetry collector received it:');
  // The request, and an event in each of two topics.
  const spans = await until('the spans of the first request', () => {
    const lines = traceLines(collector.spans, traceId);
    return lines.length >= 3 ? lines : undefined;
  });
  const own = collector.spans.find((span) => span.traceId === traceId && span.spanId === spanId);
  if (own === undefined || own.parentSpanId !== parentSpanId)
    throw new Error(`the event names span ${spanId} below ${parentSpanId}, and the trace has no such span`);
  for (const line of spans) say(`      ${line}${line.endsWith(spanId) ? '  = this event' : ''}`);
  return { name: 'before', ledger, inTopics: accountOf(records, new Set(), []).events };
}

interface Event {
  readonly eventType: string;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly metadata: {
    readonly actor: { readonly userId: string };
    readonly correlationId: string;
    readonly trace: Readonly<Record<'traceId' | 'spanId' | 'parentSpanId', string>>;
  };
}

/** The broker goes and comes back; every event is accounted for and in its order, or this rejects. */
async function showOutage({ application, broker, backupFolder }: Scene, before: Moment): Promise<void> {
  title(`The broker fails: ${broker.killed}`);
  await broker.kill();
  let slowestMs = 0;
  const timed = async (): Promise<number> => {
    const started = Date.now();
    const id = await order(application, 'umbrella');
    slowestMs = Math.max(slowestMs, Date.now() - started);
    return id;
  };
  const orders = await Promise.all(Array.from({ length: ordersDuringOutage }, timed));
  say(
    `   ${orders.length} orders are accepted after ${seconds(slowestMs)}: svc lets no call wait longer than 2 s.`,
  );
  await settled(application, 20_000);
  slowestMs = 0;
  orders.push(await timed());
  const away: Moment = {
    name: 'broker away',
    ledger: await settled(application, 20_000),
    inTopics: undefined,
  };
  say(`   Then svc knows that Kafka is away, and calls wait no more: the next order takes ${slowestMs} ms.`);
  const files = readdirSync(backupFolder, { withFileTypes: true }).filter((entry) => entry.isFile());
  const onDisk = files.map(({ name }) => readFileSync(join(backupFolder, name), 'utf8')).join('');
  if (clearTexts.some((text) => onDisk.includes(text)))
    throw new Error('the backup holds personal data in clear');
  say(`   ${idsIn(backupFolder).size} events wait on disk, masked like the others.`);

  title('The broker is back');
  await broker.restart();
  const cancelled = orders.map((id) => application.post(`/orders/${id}/cancel`, { reason: 'it is sunny' }));
  await Promise.all(cancelled);
  say(`   ${cancelled.length} orders are cancelled at once. No event overtakes an earlier one of its order.`);
  await until(
    'an empty backup',
    async () => {
      const { backup, drained, waiting } = await application.ledger();
      return (drained === backup && waiting === 0) || undefined;
    },
    40_000,
  );
  await until(
    'an event that is published directly again',
    async () => {
      await order(application, 'umbrella');
      return (await application.ledger()).published > away.ledger.published || undefined;
    },
    20_000,
  );
  say('   svc has sent the backup. New events are published directly again.');
  const ledger = await settled(application, 20_000);
  const found: readonly DemoRecord[] = await broker.read(topics, ledger.calls);
  const account = accountOf(found, idsIn(join(backupFolder, 'recovered')), clearTexts);

  title('The account');
  const moments = [before, away, { name: 'broker back', ledger, inTopics: account.events }];
  for (const line of ledgerTable(moments)) say(`   ${line}`);
  const problems = problemsOf(ledger, account);
  if (problems.length > 0) throw new Error(`the account does not add up: ${problems.join('; ')}`);
  for (const line of accountLines(ledger, account)) say(`   ${line}`);
}

const clearTexts: readonly string[] = Object.values(customer);

function closing(management: string, isKafka: boolean, keeps: boolean): void {
  if (keeps) {
    title(`Up until Ctrl+C, with traffic. The console: ${management}/actuator/svc`);
    return;
  }
  say();
  if (!isKafka) say('npm run demo -- --kafka     the same on a real Apache Kafka');
  say('npm run demo -- --outbox    with a database: what is rolled back has no event');
  say('npm run demo -- --keep      stays up, to look at the console');
}

/** A few requests a second, now more and now less, until somebody ends it. */
async function keepUp(application: Application): Promise<void> {
  let isOver = false;
  for (const signal of ['SIGINT', 'SIGTERM'])
    process.once(signal, () => {
      isOver = true;
    });
  for (let turn = 0; !isOver; turn++) {
    // An order that cannot be stored is no reason to end.
    await sendTraffic(application).catch(() => {});
    await new Promise((resume) => setTimeout(resume, 600 + 400 * Math.sin(turn / 40)));
  }
}

function chosen(): { kafka: boolean; outbox: boolean; keep: boolean } {
  const flag = { type: 'boolean', default: false } as const;
  const { values } = parseArgs({ options: { kafka: flag, outbox: flag, keep: flag, help: flag } });
  if (values.help) {
    say(HELP);
    process.exit(0);
  }
  return values;
}

async function main(): Promise<void> {
  const { kafka, outbox, keep } = chosen();
  if (!existsSync(join(root, 'dist/preload.cjs'))) {
    say('Building svc, once\n');
    const { status } = spawnSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: 'inherit' });
    if (status !== 0) throw new Error('the build failed');
  }
  const folder = mkdtempSync(join(tmpdir(), 'svc-demo-'));
  try {
    if (outbox) (await import('./demo-outbox.ts')).showOutbox(copyExample('shop', folder), say, title);
    else await showOrders(folder, kafka, keep);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function showOrders(folder: string, kafka: boolean, keep: boolean): Promise<void> {
  const example = copyExample('orders', join(folder, 'orders'), {
    '@opentelemetry/sdk-node': '*',
    '@opentelemetry/instrumentation-http': '*',
  });
  const backupFolder = join(folder, 'dlq-backup');
  const collector = await startOtlpReceiver();
  let broker: DemoBroker | undefined;
  let application: Application | undefined;
  try {
    broker = kafka ? await startRealKafka(say) : await startStandIn();
    introduce(example, broker);
    application = await startApplication(example, {
      SVC_TELEMETRY_SDK: 'node',
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint,
      OTEL_BSP_SCHEDULE_DELAY: '100',
      KAFKA_BROKERS: broker.address,
      SVC_BROKER_DLQ_BACKUP_PATH: backupFolder,
    });
    const scene = { application, broker, collector, backupFolder };
    await showOutage(scene, await showEvent(scene));
    closing(application.management, kafka, keep);
    if (keep) await keepUp(application);
  } finally {
    await application?.end();
    await broker?.stop();
    await collector.close();
  }
}

main().catch((error: unknown) => {
  const remedy = error instanceof Unavailable ? `. ${error.how}` : '';
  process.stderr.write(`\ndemo: ${error instanceof Error ? error.message : String(error)}${remedy}\n`);
  process.exitCode = 1;
});
