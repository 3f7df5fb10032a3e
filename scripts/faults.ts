import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { clientNames, clientOf } from '../src/ground/management.ts';
import { clusterFaults } from '../test/faults/cluster-faults.ts';
import type { Fault } from '../test/faults/fault.ts';
import { mockFaults } from '../test/faults/mock-faults.ts';
import {
  type OutboxDatabase,
  outboxDatabases,
  type StartedDatabase,
} from '../test/faults/outbox/outbox-databases.ts';
import { type OutboxFault, outboxFaults } from '../test/faults/outbox/outbox-faults.ts';
import { writeOutboxDocs } from '../test/faults/outbox/outbox-report.ts';
import { type OutboxFaultResult, runOutboxFault } from '../test/faults/outbox/run-outbox-fault.ts';
import { writeDocs } from '../test/faults/report.ts';
import { type FaultResult, runFault } from '../test/faults/run-fault.ts';
import { installPacked } from '../test/support/packed.ts';
import { checkoutFolder } from './services/cache.ts';
import { startKafkaCluster } from './services/kafka-cluster.ts';
import { startKafkaMock } from './services/kafka-mock.ts';
import { startS3Server } from './services/s3.ts';
import { Unavailable } from './services/unavailable.ts';

const HELP = `Usage: npm run test:faults -- [options]

Runs svc, as its user gets it, under load on a real three-node Kafka cluster, does one fault after the other to the cluster,
and settles the accounts after each: every call in exactly one place, nothing lost, the order of each key intact. Those of the
outbox have two applications with a database: each order that was committed has its event, and no other.

  --client <name>      kafkajs (default) or platformatic; may be repeated
  --database <name>    of the outbox: postgres (default), mariadb or sqlite; may be repeated; none for no fault of the outbox
  --only <fault>       one of the faults; may be repeated
  --outage <seconds>   how long all brokers are away in the fault that takes them (default 60), and how long outbox-soak takes
  --runs <n>           all of them so many times (default 1)
  --write-docs         writes the tables of docs/internals/faults.md when all have passed; with --only, those of the outbox alone
  --no-build           with the package as it was built last
  --json               results as one JSON array on standard output
  --list               the names of the faults

Exit codes: 0 all passed, 1 a fault failed, 2 wrong arguments, 3 something cannot be had on this machine.
`;

const faults: readonly (Fault | OutboxFault)[] = [...clusterFaults, ...mockFaults, ...outboxFaults];

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      client: { type: 'string', multiple: true, default: ['kafkajs'] },
      database: { type: 'string', multiple: true, default: ['postgres'] },
      only: { type: 'string', multiple: true, default: [] },
      outage: { type: 'string', default: '60' },
      runs: { type: 'string', default: '1' },
      'write-docs': { type: 'boolean', default: false },
      'no-build': { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return print(HELP);
  if (values.list) return print(faults.map(({ name, title }) => `${name.padEnd(20)} ${title}\n`).join(''));
  const unknown = values.only.find((name) => !faults.some((fault) => fault.name === name));
  if (unknown !== undefined)
    return fail(2, `no such fault: ${unknown}. There is: ${faults.map(({ name }) => name).join(', ')}`);
  const outageMs = Number(values.outage) * 1_000;
  if (!(outageMs >= 1_000)) return fail(2, '--outage takes seconds, at least 1');

  const runs = Number(values.runs);
  if (!Number.isInteger(runs) || runs < 1) return fail(2, '--runs takes a number of at least 1');
  const known = clientsOf(svcSchema());
  const missing = values.client.find((name) => !known.includes(name));
  if (missing !== undefined)
    return fail(2, `svc has no client ${missing} here. There is: ${known.join(', ')}`);

  const databases = outboxDatabases.filter(({ name }) => values.database.includes(name));
  const knownDatabases = [...outboxDatabases.map(({ name }) => name as string), 'none'];
  const strange = values.database.find((name) => !knownDatabases.includes(name));
  if (strange !== undefined)
    return fail(2, `no such database: ${strange}. There is: ${knownDatabases.join(', ')}`);

  if (!values['no-build'])
    execFileSync('npm', ['run', '--silent', 'build'], { cwd: checkoutFolder, stdio: 'inherit' });
  const manifest = JSON.parse(readFileSync(join(checkoutFolder, 'package.json'), 'utf8'));
  const versions = { ...manifest.peerDependencies, ...manifest.devDependencies };
  const needed = [
    '@aws-sdk/client-s3',
    ...databases.flatMap(({ packages }) => packages),
    ...(values.client.includes('platformatic') ? ['@platformatic/kafka'] : []),
  ];
  const application = installPacked(
    'faults',
    Object.fromEntries(needed.map((name) => [name, versions[name]])),
  );
  const cluster = once(() => startKafkaCluster({ log: say }));
  const mock = once(() => startKafkaMock(say));
  const s3 = once(() => startS3Server({ log: say }));
  const servers = new Map(databases.map((database) => [database, once(() => database.start())]));
  const results: FaultResult[] = [];
  const ofOutbox: OutboxFaultResult[] = [];
  let failed = 0;
  /** One fault after the other. What it says of them bears their names: another row is on its way beside it. */
  async function runAll(row: readonly Fault[], client: string): Promise<void> {
    for (const fault of row) {
      const tell = (line: string): void => say(`${client} ${fault.name}: ${line}`);
      tell(fault.title);
      try {
        const result = await runFault(fault, {
          ...{ cluster: cluster.get, mock: mock.get, s3: s3.get, client, application, outageMs },
          say: tell,
        });
        results.push(result);
        if (result.problems.length > 0) failed++;
        describe(result, tell);
      } catch (error) {
        failed++;
        tell(`FAILED  ${(error as Error).message}`);
      }
    }
  }

  async function runAllOfOutbox(database: OutboxDatabase, client: string): Promise<void> {
    for (const fault of wanted(outboxFaults)) {
      if (fault.databases?.includes(database.name) === false) continue;
      const tell = (line: string): void => say(`${client} ${database.name} ${fault.name}: ${line}`);
      tell(fault.title);
      try {
        const started = servers.get(database)?.get as () => Promise<StartedDatabase>;
        const result = await runOutboxFault(fault, {
          ...{ cluster: cluster.get, database, started, client, application, outageMs },
          say: tell,
        });
        ofOutbox.push(result);
        if (result.problems.length > 0) failed++;
        describeOutbox(result, tell);
      } catch (error) {
        failed++;
        tell(`FAILED  ${(error as Error).message}`);
      }
    }
  }

  const wanted = <F extends Fault | OutboxFault>(row: readonly F[]): readonly F[] =>
    row.filter((fault) =>
      values.only.length === 0
        ? !('onlyWhenNamed' in fault && fault.onlyWhenNamed)
        : values.only.includes(fault.name),
    );
  try {
    for (const client of values.client)
      for (let run = 1; run <= runs; run++) {
        if (runs > 1) say(`\n== ${client}: run ${run} of ${runs}`);
        // The cluster and the mock know nothing of each other, and both spend their time waiting.
        await Promise.all([runAll(wanted(clusterFaults), client), runAll(wanted(mockFaults), client)]);
        for (const database of databases) await runAllOfOutbox(database, client);
      }
  } finally {
    await (await cluster.started)?.stop();
    (await mock.started)?.stop();
    await (await s3.started)?.local?.stop();
    for (const server of servers.values()) await (await server.started)?.stop();
  }
  if (values['write-docs'] && failed === 0 && values.only.length === 0) {
    for (const client of values.client) {
      const last = new Map(
        results.filter((result) => result.client === client).map((result) => [result.fault, result]),
      );
      const rows = faults.flatMap(({ name }) => last.get(name) ?? []);
      writeDocs(join(checkoutFolder, 'docs', 'internals', 'faults.md'), client, rows, runs);
    }
  }
  if (values['write-docs'] && failed === 0 && ofOutbox.length > 0)
    writeOutboxDocs(join(checkoutFolder, 'docs', 'internals', 'faults.md'), ofOutbox);
  const all = [...results, ...ofOutbox];
  if (values.json) print(`${JSON.stringify(all, null, 2)}\n`);
  const passed = all.filter(({ problems }) => problems.length === 0).length;
  say(`\n${passed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

function svcSchema(): { definitions: Record<string, { enum?: string[] }> } {
  return JSON.parse(readFileSync(join(checkoutFolder, 'svc.config.schema.json'), 'utf8'));
}

/** The clients of Kafka among the values of `svc.broker.client`. */
function clientsOf({ definitions }: ReturnType<typeof svcSchema>): string[] {
  const all = JSON.stringify(definitions['svc.broker.client']);
  return clientNames.filter((name) => clientOf(name).isKafka && all.includes(`"${name}"`));
}

/** Started when it is first asked for. */
function once<T>(start: () => Promise<T>): {
  get: () => Promise<T>;
  readonly started: Promise<T> | undefined;
} {
  let started: Promise<T> | undefined;
  return {
    get() {
      started ??= start();
      return started;
    },
    get started() {
      return started;
    },
  };
}

function describe(
  { problems, ledger, duplicates, longestPauseMs, longestWaitMs, tookMs }: FaultResult,
  tell: (line: string) => void,
): void {
  const { calls, published, dlq, backup, refused, lost, retries } = ledger;
  const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
  tell(
    `${problems.length === 0 ? 'ok' : 'FAILED'} in ${seconds(tookMs)}: ${calls} calls = ${published} published + ${dlq} dlq + ${backup} backup + ${refused} refused + ${lost} lost; ${retries} retries, ${duplicates} duplicates, longest pause ${longestPauseMs === null ? '-' : seconds(longestPauseMs)}, longest wait ${seconds(longestWaitMs)}`,
  );
  for (const problem of problems) tell(problem);
}

function describeOutbox(result: OutboxFaultResult, tell: (line: string) => void): void {
  const { problems, committed, rolledBack, cutOff, delivered, duplicates, failed } = result;
  const { backlog, drainMs, tookMs } = result;
  tell(
    `${problems.length === 0 ? 'ok' : 'FAILED'} in ${(tookMs / 1000).toFixed(1)} s: ${committed} committed, ${rolledBack} rolled back, ${cutOff} cut off, ${delivered} delivered, ${duplicates} duplicates, ${failed} FAILED; at most ${backlog} waited, all sent ${(drainMs / 1000).toFixed(1)} s after the load`,
  );
  for (const problem of problems) tell(problem);
}

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

function print(text: string): number {
  process.stdout.write(text);
  return 0;
}

function fail(code: number, message: string): number {
  console.error(message);
  return code;
}

// The guards of the servers, and of the application, end all that runs when this process ends.
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)
  process.once(signal, () => process.exit(code));

try {
  process.exitCode = await main();
} catch (error) {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof Unavailable) process.exitCode = fail(3, `${message}\nHow to get it: ${error.how}`);
  else process.exitCode = fail(String(code).startsWith('ERR_PARSE_ARGS') ? 2 : 1, message);
}
