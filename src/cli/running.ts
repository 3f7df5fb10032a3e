import type { Command } from 'commander';
import { loadConfig } from '../config/read/load.ts';
import { sleep } from '../ground/builtins.ts';
import { stampText } from '../ground/claims.ts';
import { type ProcessEntry, readBoundedSync, readProcessFiles } from '../ground/files.ts';
import {
  ask,
  clientProof,
  isSameProof,
  newChallenge,
  proofHeader,
  proofKey,
  proofPartsIn,
  serverProof,
} from '../ground/http.ts';
import { circuitStates, usualPorts } from '../ground/management.ts';
import { version as ownVersion } from '../ground/version.ts';
import { printable, printableJson } from '../observe/logger.ts';
import { type Outcome, outcomes, outcomeTable } from '../observe/outcomes.ts';
import { does, group, onStopSignal, program, reportFailure, WrongUse } from './terminal.ts';

const timeoutMs = 5_000;
/** Enough for tens of thousands of series. */
const longestAnswerBytes = 32 * 1024 * 1024;

interface ProcessAnswer {
  readonly status: number;
  readonly text: string;
  /** The JSON object. `undefined`: the text is not one. */
  readonly body: Readonly<Record<string, unknown>> | undefined;
}

/** Why a process could not be asked, and what to do: exit code 1. */
class NoAnswer extends Error {}

/**
 * Sends a request to the management server of a process. The token is proven but never sent, because another program may listen on the
 * port of an ended process.
 */
async function askProcess(
  found: ManagedProcess,
  path: string,
  method: 'GET' | 'POST' = 'GET',
  proves = method === 'POST',
): Promise<ProcessAnswer> {
  const { url, token } = found;
  const bare = proves && token !== undefined ? undefined : await send(url, path, method);
  if (bare !== undefined && bare.status !== 401) return bare;
  if (token === undefined)
    throw new NoAnswer(
      `${url} needs a token: give --token-file, or set management.server.token as in the process`,
    );
  const authorization = await proofFor(found, token, path, method);
  const answer = await send(url, path, method, { authorization });
  if (answer.status === 401) throw refusal(url, method);
  return answer;
}

async function send(
  url: string,
  path: string,
  method: 'GET' | 'POST',
  headers: Readonly<Record<string, string>> = {},
): Promise<ProcessAnswer & { readonly challenge: string | undefined }> {
  try {
    const answer = await ask({ ...{ url: `${url}${path}`, method, timeoutMs, longestAnswerBytes }, headers });
    const text = answer.bytes.toString();
    const challenge = answer.headers['www-authenticate'];
    return { status: answer.status, text, body: objectIn(text), challenge };
  } catch (error) {
    throw new NoAnswer(
      `no process answers at ${url} (${reasonOf(error as Error)}): --url or --pid names another`,
    );
  }
}

const proofKeys = new Map<string, Promise<Buffer>>();

function keyOf(token: string): Promise<Buffer> {
  const key = proofKeys.get(token) ?? proofKey(token);
  proofKeys.set(token, key);
  return key;
}

/** The server first proves that it has the token and is the expected process. */
async function proofFor(
  { url, stamp }: ManagedProcess,
  token: string,
  path: string,
  method: 'GET' | 'POST',
): Promise<string> {
  const challenge = newChallenge();
  const answer = await send(url, path, method, { authorization: proofHeader({ challenge }) });
  const given = proofPartsIn(answer.challenge);
  const [nonce, process] = [given?.get('nonce'), given?.get('process')];
  if (answer.status !== 401 || given === undefined || nonce === undefined || process === undefined)
    throw new NoAnswer(
      `the server at ${url} cannot prove that it is svc, so the token was not sent. Choose another process with --url or --pid. An older svc needs the commands of its version. A process without management.server.token takes no token`,
    );
  const key = await keyOf(token);
  const parts = { challenge, nonce, process };
  const own = serverProof(key, parts);
  const isProven = [given.get('proof'), given.get('action-proof')].some(
    (proof) => proof !== undefined && isSameProof(proof, own),
  );
  if (!isProven) throw refusal(url, method);
  if (stamp !== undefined && stamp !== process)
    throw new NoAnswer(`the server at ${url} is not the process of its process file: choose one with --url`);
  return proofHeader({ challenge, nonce, proof: clientProof(key, parts, method, path) });
}

function refusal(url: string, method: 'GET' | 'POST'): NoAnswer {
  return new NoAnswer(
    `${url} refuses the token, or is another server (the token was not sent). Use the management.server.token${method === 'POST' ? ' or action-token' : ''} of the process with --token-file`,
  );
}

/** @throws NoAnswer if another server answered, or the endpoint is not exposed */
function expectFound({ status }: ProcessAnswer, { url }: ManagedProcess, endpoint: string): void {
  if (status === 404)
    throw new NoAnswer(
      `${url} does not serve ${endpoint}: it is not svc, or ${endpoint} is not in management.endpoints.web.exposure.include`,
    );
}

/** Another version may show less or more. */
function sayOtherVersion(found: unknown, own: string): void {
  if (typeof found === 'string' && found !== own)
    process.stderr.write(
      `svc: the process runs svc ${printable(found)}, this command is of ${own}, so the output may lack parts. Run ${program} in the installation of the process\n`,
    );
}

function objectIn(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function reasonOf({ code = 'no HTTP' }: NodeJS.ErrnoException): string {
  return code === 'TIMEOUT' ? `no answer within ${timeoutMs / 1_000} s` : code;
}

// Commands that ask a process through its management server.

interface ProcessOptions {
  readonly config?: string;
  readonly json?: true;
  readonly url?: string;
  readonly pid?: string;
  readonly tokenFile?: string;
}

function withProcess(command: Command): Command {
  return command
    .option(
      '--url <url>',
      'of its management server (default: the only process of this user, otherwise the configured address)',
    )
    .option('--pid <pid>', 'process id, if this user has several')
    .option('--token-file <file>', 'file with the token (default: the configured token)');
}

interface ManagedProcess {
  /** Without a trailing slash. */
  readonly url: string;
  readonly pid?: number;
  readonly token: string | undefined;
  /** The identity of the process, from its process file. */
  readonly stamp?: string | undefined;
}

/**
 * @param acts whether the action token is needed
 * @throws WrongUse
 */
function findProcess(options: ProcessOptions, acts = false): ManagedProcess {
  // Other problems of the configuration are ignored.
  const { server } = loadConfig({ file: options.config }).config.management;
  const token =
    options.tokenFile === undefined
      ? ((acts ? server.actionToken : undefined) ?? server.token ?? server.actionToken)
      : tokenIn(options.tokenFile);
  if (options.url !== undefined) {
    if (options.pid !== undefined)
      throw new WrongUse('--url and --pid both choose a process: use one of them');
    return { url: urlGiven(options.url), token };
  }
  const running = processes();
  const meant =
    options.pid === undefined ? running : running.filter(({ pid }) => String(pid) === options.pid);
  const [first, second] = meant;
  if (second !== undefined)
    throw new WrongUse(
      `${meant.length} processes run here, choose one with --pid: ${meant.map(described).join('; ')}`,
    );
  if (first !== undefined)
    return { url: urlOf(first), pid: first.pid, token, stamp: first.stamp && stampText(first.stamp) };
  if (options.pid !== undefined)
    throw new WrongUse(
      `no process ${printable(options.pid)} of this user has a management server. For a process of another user, use --url`,
    );
  const { address, port = 0 } = server;
  return { url: urlOf({ address, port: port > 0 ? port : usualPorts.first }), token };
}

/** Processes of this user that were started in a folder, each with the events that it has stored outside a transaction. */
export function unjoinedIn(
  folder: string,
  token: string | undefined,
): Promise<{ readonly pid: number; readonly count: number }[]> {
  const found = processes().filter(({ cwd }) => cwd === folder);
  return Promise.all(
    found.map(async (entry) => {
      const stamp = entry.stamp && stampText(entry.stamp);
      return { pid: entry.pid, count: await unjoinedOf({ url: urlOf(entry), pid: entry.pid, token, stamp }) };
    }),
  );
}

function tokenIn(file: string): string {
  try {
    return readBoundedSync(file).toString().trim();
  } catch (error) {
    throw new WrongUse(`--token-file cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

function urlGiven(text: string): string {
  const url = /^https?:\/\//i.test(text) ? text : `http://${text}`;
  if (!URL.canParse(url)) throw new WrongUse('--url takes a URL such as http://127.0.0.1:17820');
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`.replace(/\/+$/, '');
}

/** A wildcard address is reached through loopback. */
function urlOf({
  address,
  port,
  tls = false,
}: Pick<ProcessEntry, 'address' | 'port'> & { tls?: boolean }): string {
  const host = { '0.0.0.0': '127.0.0.1', '::': '::1' }[address] ?? address;
  return `${tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Ignores a folder that others can write to: a file there could lead a token to their port. */
function processes(): readonly ProcessEntry[] {
  try {
    return readProcessFiles();
  } catch {
    return [];
  }
}

const described = ({ pid, name, address, port }: ProcessEntry): string =>
  printable(`${pid}${name ? ` (${name})` : ''} on ${address}:${port}`);

interface BreakerOptions extends ProcessOptions {
  readonly dryRun?: true;
}

interface Reset {
  readonly before: string;
  readonly after: string;
}
type Resets = Readonly<Record<'broker' | 'outbox', Reset | null>>;

/** `svc breaker reset`: closes the circuit breakers of a running process. `--dry-run` only shows their state. */
async function runBreakerReset(options: BreakerOptions): Promise<number> {
  const found = findProcess(options, options.dryRun !== true);
  try {
    if (options.dryRun) {
      const { broker, outbox } = (await takeSample(found)).breakers;
      const stays = (state: string | null): Reset | null =>
        state === null ? null : { before: state, after: state };
      return say(options, { broker: stays(broker), outbox: stays(outbox) });
    }
    const answer = await askProcess(found, '/actuator/svc/circuit-breaker/reset', 'POST');
    expectFound(answer, found, 'svc-metrics');
    const { detail, broker, outbox } = (answer.body ?? {}) as Partial<Resets> & { detail?: string };
    if (answer.status !== 200 || broker === undefined || outbox === undefined)
      throw new NoAnswer(`not reset: ${found.url} answers ${answer.status}${detail ? `: ${detail}` : ''}`);
    return say(options, { broker, outbox });
  } catch (error) {
    return reportFailure(error, NoAnswer);
  }
}

function say({ json, dryRun = false }: { json?: true; dryRun?: boolean }, resets: Resets): number {
  const lines = Object.entries(resets).map(([name, reset]) =>
    reset === null
      ? `${name}: no breaker in this process`
      : `${name}: ${dryRun ? `${reset.before}, would be reset` : `${reset.before}, now ${reset.after}`}`,
  );
  process.stdout.write(
    json ? `${printableJson({ dryRun, ...resets }, 2)}\n` : `${lines.map(printable).join('\n')}\n`,
  );
  return 0;
}

/** Outcomes with a status text. `failed` counts all unsuccessful ones. */
type Total =
  | 'failed'
  | { [Each in Outcome]: (typeof outcomeTable)[Each]['status'] extends string ? Each : never }[Outcome];
const { published, ...others } = Object.fromEntries(
  outcomes.map((each) => [each, outcomeTable[each].status] as const).filter(([, words]) => words !== null),
);
const names = { published, failed: 'failed', ...others } as Readonly<Record<Total, string>>;
const totals = Object.keys(names) as readonly Total[];

/** The state of a process at one moment. `null`: unknown, or there is no such part. */
export interface Sample {
  readonly atMs: number;
  readonly status: string;
  /** One line of its health. */
  readonly remark: string | null;
  /** `HEALTHY`, `WARNING` or `CRITICAL`, for the last five minutes. */
  readonly state: string | null;
  /** Exceeded thresholds, with a remedy for each. */
  readonly findings: readonly string[];
  /** Since the start of the process. */
  readonly events: Readonly<Record<Total, number | null>>;
  readonly breakers: Readonly<Record<'broker' | 'outbox', string | null>>;
  /** Its relay is on standby, because others send all rows. */
  readonly relayStandsBy: boolean;
  readonly backlog: {
    readonly memoryEvents: number | null;
    readonly backupEvents: number | null;
    readonly backupFiles: number | null;
    readonly outboxPending: number | null;
    readonly outboxOldestSeconds: number | null;
  };
}

/**
 * Reads health and the metrics of `/actuator/prometheus`.
 *
 * @throws NoAnswer
 */
async function takeSample(process: ManagedProcess): Promise<Sample> {
  const [health, metrics] = await Promise.all([
    askProcess(process, '/actuator/health/svc'),
    askProcess(process, '/actuator/prometheus'),
  ]);
  expectFound(health, process, 'health');
  expectFound(metrics, process, 'prometheus');
  // The status needs no token, its details may. Without a valid token, the status is used alone.
  const isBare = health.body?.details === undefined && process.token !== undefined;
  const { body } = isBare
    ? await askProcess(process, '/actuator/health/svc', 'GET', true).catch(() => health)
    : health;
  const { status, details } = (body ?? {}) as { status?: unknown; details?: Record<string, unknown> };
  if (typeof status !== 'string' || metrics.status !== 200)
    throw new NoAnswer(`the server at ${process.url} is not svc`);
  const remark = details?.error ?? details?.warning;
  const value = (name: string, label = ''): number | null => sumOf(metrics.text, name, label);
  const stateOf = (breaker: string): string | null =>
    circuitStates[value('svc_circuit_state', `breaker="${breaker}"`) ?? -1] ?? null;
  return {
    ...{ atMs: Date.now(), status, remark: typeof remark === 'string' ? remark : null },
    state: typeof details?.state === 'string' ? details.state : null,
    findings: Array.isArray(details?.findings)
      ? details.findings.filter((each): each is string => typeof each === 'string')
      : [],
    events: Object.fromEntries(
      totals.map((name) => [name, value(`svc_events_${name}_total`)]),
    ) as Sample['events'],
    breakers: { broker: stateOf('broker'), outbox: stateOf('outbox') },
    relayStandsBy: (details?.outbox as { standsBy?: unknown } | undefined)?.standsBy === true,
    backlog: {
      memoryEvents: value('svc_buffer_events'),
      backupEvents: value('svc_backup_events'),
      backupFiles: value('svc_backup_files'),
      outboxPending: value('svc_outbox_pending'),
      outboxOldestSeconds: value('svc_outbox_oldest_pending_age_seconds'),
    },
  };
}

/** Events that the process stored outside a transaction, not atomically with its writes; 0 if it does not answer. */
async function unjoinedOf(process: ManagedProcess): Promise<number> {
  const answer = await askProcess(process, '/actuator/prometheus').catch(() => undefined);
  return answer?.status === 200 ? (sumOf(answer.text, 'svc_outbox_unjoined_total', '') ?? 0) : 0;
}

/** Sums all series, or those with this label. `null`: there is no such series. */
function sumOf(text: string, name: string, label: string): number | null {
  let sum: number | null = null;
  for (const line of text.split('\n')) {
    if (!line.startsWith(name) || !line.includes(label)) continue;
    const [, value = ''] = /^(?:\{.*\})? (\S+)/.exec(line.slice(name.length)) ?? [];
    if (value !== '') sum = (sum ?? 0) + Number(value);
  }
  return sum;
}

/** Events a second between two samples. `null`: unknown, or the process was restarted. */
export function ratesOf(before: Sample, now: Sample): Readonly<Record<Total, number | null>> {
  const seconds = (now.atMs - before.atMs) / 1_000;
  const rate = (name: Total): number | null => {
    const [first, last] = [before.events[name], now.events[name]];
    if (first === null || last === null || last < first || seconds <= 0) return null;
    return Math.round(((last - first) / seconds) * 10) / 10;
  };
  return Object.fromEntries(totals.map((name) => [name, rate(name)])) as Record<Total, number | null>;
}

interface StatusOptions extends ProcessOptions {
  readonly once?: true;
}

/** The interval of the rates. */
const onceMs = 1_000;
const everyMs = 2_000;
const fallbackColumns = 80;
const toTop = '\u001b[H\u001b[J';
const ownScreen = ['\u001b[?1049h\u001b[?25l', '\u001b[?25h\u001b[?1049l'] as const;

/** `svc status`: rates, backlog and health of a running process. Exit code 1: it is DOWN or does not answer. */
async function runStatus(options: StatusOptions): Promise<number> {
  const found = findProcess(options);
  const stopping = new AbortController();
  const forget = onStopSignal(() => stopping.abort());
  try {
    const { name, version } = await whoIs(found);
    sayOtherVersion(version, ownVersion);
    const first = await takeSample(found);
    const show = (sample: Sample, before: Sample): Shown => ({
      ...{ url: found.url, name, version, sample, perSecond: ratesOf(before, sample) },
    });
    if (options.once) {
      await pause(onceMs, stopping.signal);
      const shown = show(await takeSample(found), first);
      const columns = process.stdout.columns ?? fallbackColumns;
      write(options.json ? `${printableJson(statusDocument(shown), 2)}\n` : statusScreen(shown, columns));
      return shown.sample.status === 'UP' ? 0 : 1;
    }
    return await watch(found, first, show, options.json === true, stopping.signal);
  } catch (error) {
    return reportFailure(error, NoAnswer);
  } finally {
    forget();
  }
}

/** Runs until Ctrl-C. Keeps asking a process that does not answer. */
async function watch(
  found: ManagedProcess,
  first: Sample,
  show: (sample: Sample, before: Sample) => Shown,
  isJson: boolean,
  signal: AbortSignal,
): Promise<number> {
  const isScreen = process.stdout.isTTY === true && !isJson;
  let before = first;
  if (isScreen) write(ownScreen[0]);
  try {
    for (let now = first; !signal.aborted; ) {
      const shown = show(now, before);
      if (isJson) write(`${printableJson(statusDocument(shown))}\n`);
      else if (isScreen)
        write(`${toTop}${statusScreen(shown, process.stdout.columns ?? fallbackColumns)}\nCtrl-C ends`);
      else write(statusLine(shown));
      before = now;
      now = await next(found, isScreen, signal, now);
    }
  } finally {
    if (isScreen) write(ownScreen[1]);
  }
  return 0;
}

/** The next successful sample. Until then the screen keeps the last one. */
async function next(
  found: ManagedProcess,
  isScreen: boolean,
  signal: AbortSignal,
  last: Sample,
): Promise<Sample> {
  let isSaid = false;
  while (!signal.aborted) {
    await pause(everyMs, signal);
    if (signal.aborted) break;
    try {
      return await takeSample(found);
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      const line = printable(error.message);
      if (isScreen) write(`\r${line.slice(0, process.stdout.columns ?? fallbackColumns)}\u001b[K`);
      else if (!isSaid) process.stderr.write(`svc: ${line}\n`);
      isSaid = true;
    }
  }
  return last;
}

async function whoIs(found: ManagedProcess): Promise<{ name: string | null; version: string | null }> {
  const { body } = await askProcess(found, '/actuator/info');
  const { service, svc } = (body ?? {}) as { service?: { name?: unknown }; svc?: { version?: unknown } };
  const text = (value: unknown): string | null => (typeof value === 'string' ? value : null);
  return { name: text(service?.name), version: text(svc?.version) };
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  sleep(ms, undefined, { signal }).catch(() => {});

function write(text: string): void {
  process.stdout.write(text);
}

interface Shown {
  readonly url: string;
  readonly name: string | null;
  readonly version: string | null;
  readonly sample: Sample;
  readonly perSecond: Readonly<Record<Total, number | null>>;
}

/** The document of `--json`. */
function statusDocument({ url, name, version, sample, perSecond }: Shown): object {
  const { atMs, ...rest } = sample;
  return { at: new Date(atMs).toISOString(), url, name, version, ...rest, perSecond };
}

/** A screen of lines that fit 40 columns. Longer lines are cut. */
export function statusScreen({ url, name, version, sample, perSecond }: Shown, columns: number): string {
  const { status, remark, state, findings, events, breakers, relayStandsBy, backlog } = sample;
  const lines = [
    `${name ?? 'svc'}  svc ${version ?? '-'}`,
    url,
    '',
    `health    ${status}${state === null ? '' : `  ${state}`}`,
    ...(remark === null ? [] : wrapped(printable(remark), columns - 10)).map((line) => `          ${line}`),
    ...findings.flatMap((each) => wrapped(printable(each), columns - 2).map((line) => `  ${line}`)),
    `breaker   ${breakers.broker ?? '-'}`,
    ...(breakers.outbox === null
      ? []
      : [`  outbox  ${breakers.outbox}${relayStandsBy ? ', stands by' : ''}`]),
    '',
    `${'EVENTS'.padEnd(14)}${'total'.padStart(11)}${'per s'.padStart(10)}`,
    ...totals.map(
      (each) =>
        `${names[each].padEnd(14)}${text(events[each]).padStart(11)}${text(perSecond[each]).padStart(10)}`,
    ),
    '',
    'BACKLOG',
    `in memory     ${text(backlog.memoryEvents).padStart(11)}`,
    `backup        ${text(backlog.backupEvents).padStart(11)} in ${text(backlog.backupFiles)} files`,
    ...(backlog.outboxPending === null
      ? []
      : [
          `outbox        ${text(backlog.outboxPending).padStart(11)}, oldest ${text(backlog.outboxOldestSeconds)} s`,
        ]),
  ];
  return `${lines.map((line) => printable(line).slice(0, columns)).join('\n')}\n`;
}

/** Wraps instead of cutting. A word that is longer than a line is split. */
function wrapped(text: string, columns: number): string[] {
  const width = Math.max(10, columns);
  const lines: string[] = [];
  const words = text.split(' ').flatMap((word) => word.match(new RegExp(`.{1,${width}}`, 'gs')) ?? []);
  for (const word of words) {
    const last = lines.at(-1);
    if (last === undefined || last.length + word.length + 1 > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

/** For a log or a pipe. */
function statusLine({ sample, perSecond }: Shown): string {
  const { atMs, status, state, breakers, backlog, events } = sample;
  const rates = totals.map((each) => `${each} ${text(perSecond[each])}/s`);
  return `${[
    new Date(atMs).toISOString(),
    state === null ? status : `${status} ${state}`,
    ...rates,
    `lost ${text(events.lost)} in total`,
    `breaker ${breakers.broker ?? '-'}${breakers.outbox === null ? '' : ` outbox ${breakers.outbox}`}`,
    `memory ${text(backlog.memoryEvents)}`,
    `backup ${text(backlog.backupEvents)}`,
    ...(backlog.outboxPending === null ? [] : [`outbox ${text(backlog.outboxPending)}`]),
  ].join('  ')}\n`;
}

const text = (value: number | null): string => (value === null ? '-' : String(Math.round(value * 10) / 10));

export function addRunning(svc: Command): void {
  const status = withProcess(
    svc.command('status').description('show a running process: rates, backlog, breakers, health'),
  ).option('--once', 'print once, over one second, instead of until Ctrl-C');
  does(status, runStatus);
  const reset = withProcess(
    group(svc, 'breaker')
      .description('circuit breakers of a running process: reset')
      .command('reset')
      .description('close the circuit breakers of a running process'),
  ).option('--dry-run', 'show their state, and change nothing');
  does(reset, runBreakerReset);
}
