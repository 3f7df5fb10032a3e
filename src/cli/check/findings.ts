import { writeMaps } from '../../capture/report.ts';
import { formatProblem, type Problem } from '../../config/check/problem.ts';
import { program } from '../wrong-use.ts';
import { counted, type OnlineCheck, rightTo, stateLines, unjoinedText } from './check-online.ts';
import type { ApplicationCheck } from './inspect-application.ts';

const areas: readonly string[] = [
  ...['node', 'configuration', 'targets', 'start', 'broker', 'topics', 'rights', 'backup'],
  ...['tables', 'triggers', 'transactions', 'keys', 'registry', 'folders'],
];

/** One thing that `svc doctor` and `svc check --online` look at. */
export interface Finding {
  readonly area: string;
  readonly state: 'ok' | 'warning' | 'error';
  /** One line. */
  readonly text: string;
  /** What to do; of all that is not ok. */
  readonly fix?: string;
}

/** What is in place where the message does not say what to do. */
const fixes = {
  configuration: 'correct the configuration file: its JSON Schema tells an editor what can stand there',
  targets: `correct module and function in the configuration, then: ${program} check`,
  start: `${writeMaps}, name the file that is loaded in module, or declare the function in code with publishEvent()`,
  broker: 'start the broker, or correct svc.broker.bootstrap-servers and its TLS and SASL settings',
  topics: 'create the topic, or correct its name in svc.broker.topic, dlq-topic or the target',
  rights: 'let the user of svc.broker.sasl describe and write its topics, and use its group',
  backup: 'correct svc.broker.backup.s3-*, and let its user put and delete objects below the prefix',
  tables: `make or update the tables: ${program} outbox migrate, or ${program} outbox ddl for those who own the database`,
  triggers: 'run the statement at a quiet time, as the owner of the table',
  transactions:
    'call the functions that its log names within a transaction, or set svc.outbox.on-no-transaction: error: then such calls fail',
  keys: 'correct svc.pii.kms, or let its user use this key',
  registry: 'register the schema, or correct svc.serde.schema-registry-url',
  folders: 'let the user of the process write there, or name another folder',
} as const;

/** Everything that was looked at, in the order in which a start needs it. */
export function findingsOf(application: ApplicationCheck, online: OnlineCheck): Finding[] {
  const all = [...ofApplication(application), ...ofBroker(online), ...ofServices(online)];
  // Stable: in one area as they were found.
  return all.sort((a, b) => areas.indexOf(a.area) - areas.indexOf(b.area));
}

const ok = (area: string, text: string): Finding => ({ area, state: 'ok', text });
const wrong = (area: keyof typeof fixes, text: string, fix: string = fixes[area]): Finding => ({
  ...{ area, state: 'error', text, fix },
});

function ofApplication({ config, problems, remarks, reports, refused, start }: ApplicationCheck): Finding[] {
  const found: Finding[] = [];
  const [ofNode] = problems.filter(({ name }) => name === 'svc');
  if (ofNode === undefined) found.push(ok('node', `Node ${process.versions.node}`));
  for (const problem of problems)
    found.push(ofProblem(problem, problem === ofNode ? 'node' : 'configuration'));
  if (problems.every((each) => each === ofNode))
    found.push(ok('configuration', config.file ?? 'environment variables'));
  for (const each of remarks)
    found.push(
      typeof each === 'string'
        ? { ...{ area: 'configuration', state: 'warning', text: each }, fix: fixes.configuration }
        : { ...ofProblem(each, 'configuration'), state: 'warning' },
    );
  for (const { id, reason } of refused) found.push(wrong('targets', `${id}: ${reason}`));
  for (const { id, state, reason = 'cannot be captured' } of reports)
    if (state === 'failed') found.push(wrong('targets', `${id}: ${reason}`));
  const patched = reports.filter(({ state }) => state !== 'failed').length;
  if (patched > 0 || reports.length === 0)
    found.push(
      ok('targets', `${patched} of ${counted(reports.length + refused.length, 'target')} can be captured`),
    );
  if (start?.problem !== undefined)
    found.push({
      ...{ area: 'start', state: 'warning', text: `${start.command}: ${start.problem}` },
      fix: fixes.start,
    });
  for (const { id, state, reason = '' } of start?.targets ?? [])
    if (state === 'unloaded') found.push(wrong('start', `${id}: ${reason}`));
    else found.push(ok('start', `${id}: ${state}`));
  return found;
}

function ofProblem(problem: Problem, area: string): Finding {
  const { fix = fixes.configuration, ...rest } = problem;
  return { area, state: 'error', text: formatProblem(rest), fix };
}

function ofBroker({ client, asked, problem, cluster, topics, group }: OnlineCheck): Finding[] {
  const found: Finding[] = [];
  const where = asked.join(', ');
  if (problem !== undefined) found.push(wrong('broker', problem));
  else if (cluster !== undefined)
    found.push(
      ok('broker', `${where} answers, cluster ${cluster.id}, ${counted(cluster.brokers, 'broker')}`),
    );
  else
    found.push(
      ok('broker', `none to ask: svc.broker.client is ${client}${where === '' ? '' : `, ${where}`}`),
    );
  for (const { topic, partitions, mayWrite, problem: why } of topics) {
    if (why !== undefined) found.push(wrong(mayWrite === false ? 'rights' : 'topics', why));
    else {
      found.push(ok('topics', `${topic}: ${counted(partitions ?? 0, 'partition')}`));
      found.push(ok('rights', `${topic}: ${rightTo('write', mayWrite)}`));
    }
  }
  if (group?.problem !== undefined) found.push(wrong('rights', group.problem));
  else if (group !== undefined)
    found.push(ok('rights', `group ${group.name}: ${rightTo('use it', group.mayUse)}`));
  return found;
}

function ofServices({ backup, serde, outbox, unjoined = [], keys, folders = [] }: OnlineCheck): Finding[] {
  const found: Finding[] = [];
  if (backup?.problem !== undefined) found.push(wrong('backup', backup.problem));
  else if (backup !== undefined) found.push(ok('backup', `bucket ${backup.bucket} takes events`));
  if (outbox?.problem !== undefined) found.push(wrong('tables', outbox.problem));
  else if (outbox !== undefined)
    found.push(
      ok(
        'tables',
        outbox.pending === undefined ? `${outbox.table}` : `${outbox.table}: ${outbox.pending} pending`,
      ),
    );
  if (outbox?.warning !== undefined)
    found.push({ ...{ area: 'tables', state: 'warning', text: outbox.warning }, fix: fixes.tables });
  if (outbox?.guard !== undefined) {
    const text = `${outbox.table} takes rows that no relay finds, which svc never writes`;
    found.push({
      ...{ area: 'triggers', state: 'warning', text },
      fix: `${fixes.triggers}: ${outbox.guard}`,
    });
  } else if (outbox?.pending !== undefined) found.push(ok('triggers', `${outbox.table} is guarded`));
  for (const each of unjoined)
    found.push({ area: 'transactions', state: 'warning', text: unjoinedText(each), fix: fixes.transactions });
  for (const { id, problem } of keys?.keys ?? [])
    found.push(problem === undefined ? ok('keys', `${id}: answers`) : wrong('keys', `${id}: ${problem}`));
  for (const { eventType, state, problem } of serde?.schemas ?? [])
    found.push(
      state === undefined
        ? wrong('registry', problem ?? `no schema for ${eventType}`)
        : ok('registry', `schema of ${eventType} ${stateLines[state]}`),
    );
  for (const { name, folder, problem } of folders)
    found.push(
      problem === undefined ? ok('folders', `${name}: ${folder}`) : wrong('folders', `${name}: ${problem}`),
    );
  return found;
}
