import { Command, Help, Option } from 'commander';
import { version } from '../ground/version.ts';
import { type CatalogOptions, runCatalog } from './catalog.ts';
import { type DoctorOptions, runCheck, runDoctor } from './check.ts';
import { runManifest } from './check-start.ts';
import { type InitOptions, runInit } from './init.ts';
import { addInbox, addOutbox } from './outbox.ts';
import { runRelayCommand } from './outbox-config.ts';
import {
  type ExportOptions,
  repeated,
  runBackup,
  runDlq,
  runExport,
  sinceText,
  timeOf,
  withFilters,
  withRecoveryOptions,
} from './recovery.ts';
import { runBreakerReset, runStatus, withProcess } from './running.ts';
import { limitOf, runDecrypt, runTail } from './tail.ts';
import { does, group, program, WrongUse } from './wrong-use.ts';

const broker = ['--broker <host:port,...>', 'instead of svc.broker.bootstrap-servers'] as const;

/**
 * The tree of all commands and options, for parsing, help and completion. Errors are thrown. `process.exitCode` is the command's result.
 */
export function commandTree(): Command {
  const svc = new Command(program)
    .description(`svc ${version}: function calls of a Node application as events in Kafka`)
    .version(version, '-v, --version', 'the version')
    .helpOption('-h, --help', 'this text, or that of a command')
    .helpCommand(false)
    .usage('<command> [--help], or help, or version')
    .configureHelp({
      subcommandTerm: (command) => command.name(),
      // The root lists only commands, so that its help fits one screen.
      visibleOptions: (command) => (command.parent === null ? [] : new Help().visibleOptions(command)),
    })
    .configureOutput({ outputError: () => {} })
    .exitOverride()
    .addHelpText(
      'after',
      `
Examples:
  ${program} doctor                    what is wrong here, and how to fix it
  ${program} dlq list --since 2h       what did not reach its topic, and why`,
    );
  addInit(svc);
  addCheck(svc);
  addCatalog(svc);
  addRunning(svc);
  addRecovery(svc);
  addOutbox(svc, broker);
  addRelay(svc);
  addInbox(svc);
  addTail(svc);
  addDecrypt(svc);
  const completion = svc
    .command('completion')
    .description(`print the completion script for a shell: ${shells.join(', ')}`)
    .argument('<shell>');
  does(completion, (_, shell = '') => runCompletion(svc, shell), { json: false, config: false });
  return svc;
}

function addInit(svc: Command): void {
  const init = svc
    .command('init')
    .summary('write svc.config.yaml for this application, from what it has')
    .description('Writes svc.config.yaml, from the functions of the application that look like commands.')
    .option(
      '--target <module#function=TYPE>',
      'this function, as ./src/orders.ts#createOrder=ORDER_CREATED; repeatable',
      repeated,
    )
    .option('--broker <host:port,...>', 'of Kafka (default: none, events go to files)')
    .option('--topic <topic>', 'of the events (default: <name of the package>.events.v1)')
    .option('--yes', 'ask nothing: one function for each event type that was found')
    .option('--no-script', 'leave package.json as it is')
    .option('--force', 'replace an existing svc.config.yaml')
    .option('--dry-run', 'print the file, write nothing');
  does<InitOptions>(init, (options) => runInit(options), { config: false });
}

function addCheck(svc: Command): void {
  const check = svc
    .command('check')
    .summary('check the targets; --online: also the broker and other services')
    .description('Reports which publish targets of svc.config.* svc finds.')
    .argument('[command...]', 'after --: the start command of the application')
    .usage('[options] [-- node <file>]')
    .option(
      '--online',
      'also checks the permissions on broker, bucket, schema registry and outbox database; writes no event',
    )
    .option(
      '--bundle <paths...>',
      'check that the source maps of these built files or folders lead to the targets',
    )
    .addHelpText(
      'after',
      `
Put the start command of the application after -- (default: scripts.start of
package.json). svc follows its imports. Exit 1 means that it loads a file
compiled from the one that a target names.`,
    );
  does(check, (options, ...command) => runCheck(options, command));
  const doctor = svc
    .command('doctor')
    .summary('find what is wrong, from Node to the broker, and how to fix it')
    .description(
      'Checks everything that svc needs, from Node to the broker, and names a fix for each failure.',
    )
    .argument('[command...]', 'after --: the start command of the application')
    .usage('[options] [-- node <file>]');
  does<DoctorOptions>(doctor, (options, ...command) => runDoctor(options, command));
  const manifest = svc
    .command('manifest')
    .summary('list where the targets are, so that a start parses nothing')
    .description(
      'Writes svc.manifest.json beside the configuration, with the place of each target\nin the built files. Run it after each build, and ship it with the configuration.',
    )
    .argument('[paths...]', 'built files, or folders of them (dist, .next/server)');
  does(manifest, (options, ...paths) => runManifest(options, paths));
}

function addCatalog(svc: Command): void {
  const catalog = svc
    .command('catalog')
    .summary('write all event types as schemas, TypeScript and AsyncAPI')
    .description(
      'Describes all event types, from configuration and code: a JSON Schema and an Avro\nschema each, TypeScript types, and an AsyncAPI document.',
    )
    .option('--dir <folder>', 'its folder (default: event-catalog, beside the configuration)')
    .option('--check', 'write nothing; exit 1 if a change breaks consumers')
    .option(
      '--against <file>',
      'with --check: compare with this svc.catalog.json, such as that of the main branch',
    )
    .option('--watch', 'learn the form of payloads from events in the topics, without values; until Ctrl-C')
    .option('--since <time>', `with --watch: ${sinceText} (default: new events only)`, timeOf('since'))
    .option('--until <time>', 'with --watch: end with events stored before', timeOf('until'))
    .option('--topic <topic>', 'with --watch: this topic as well; repeatable', repeated)
    .option('--broker <host:port,...>', 'with --watch: instead of svc.broker.bootstrap-servers');
  does<CatalogOptions>(catalog, (options) => runCatalog(options));
}

function addRunning(svc: Command): void {
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

function addRecovery(svc: Command): void {
  const toTopics = 'send them to their topics';
  const dlq = group(svc, 'dlq').description('dead letters: list, recover');
  for (const [action, text] of [
    ['list', 'list the events in the dead letter topic'],
    ['recover', toTopics],
  ] as const) {
    const command = withRecoveryOptions(dlq.command(action).description(text))
      .option('--dlq-topic <topic>', 'instead of svc.broker.dlq-topic')
      .option('--group <name>', 'consumer group that keeps the progress (default: svc-dlq-recovery)');
    does(command, (options) => runDlq(options, action === 'list' ? 'list' : 'send'));
  }
  const backup = group(svc, 'backup').description(
    'events in the backup, local or in S3: list, restore, export',
  );
  for (const [action, text] of [
    ['list', 'list the events in the local backup; with --s3, in the bucket'],
    ['restore', toTopics],
  ] as const) {
    const command = withRecoveryOptions(backup.command(action).description(text))
      .option('--dir <folder>', 'instead of svc.broker.dlq-backup-path')
      .option('--file <file>', 'this file alone')
      .option('--s3', 'the bucket of svc.broker.backup.s3-bucket');
    does(command, (options) => runBackup(options, action === 'list' ? 'list' : 'send'));
  }
  const toFiles = withFilters(
    backup.command('export').description('copy the events of the local backup to files, one file each'),
  )
    .requiredOption('--out <folder>', 'target: a new or empty folder')
    .addOption(
      new Option('--format <form>', 'the event itself (<eventId>.json), or with reason and time')
        .choices(['event', 'record'])
        .default('event'),
    )
    .option('--dir <folder>', 'instead of svc.broker.dlq-backup-path')
    .option('--file <file>', 'this file alone');
  does<ExportOptions>(toFiles, runExport);
}

function addRelay(svc: Command): void {
  const relay = svc
    .command('relay')
    .description('send the events of the outbox without the application')
    .option(...broker)
    .addHelpText(
      'after',
      `
It runs until SIGTERM or Ctrl-C, then finishes the batch under way within
svc.shutdown.timeout-ms and gives its rows back to other relays. Outages of the
database and the broker it waits out. Set svc.outbox.publisher-enabled: false
for the application that leaves the sending to it. Health and metrics are on
the management port.

Exit codes: 0 stopped in order, 1 it cannot begin or sends were under way at
the end, 2 the outbox is off or the configuration wrong.`,
    );
  does(relay, runRelayCommand, { json: false });
}

function addTail(svc: Command): void {
  const tail = svc
    .command('tail')
    .summary('show the events of a topic as they arrive')
    .description('Shows the events of a topic as they arrive, until Ctrl-C. It joins no consumer group.')
    .argument('<topic>')
    .option(
      '--since <time>',
      'begin with events stored since: 2026-03-04T10:00:00Z, or 90m (90 minutes ago); default: new events only',
      timeOf('since'),
    )
    .option('--until <time>', 'end with events stored before', timeOf('until'))
    .option(
      '--limit <number>',
      'end after this many, or at the end of the topic; without --since: the newest',
      limitOf,
    )
    .option('--follow', 'with --limit: wait for new events')
    .option('--type <event type>', 'only these; repeatable', repeated)
    .option('--header <name=value>', 'only events with this header; repeatable', repeated)
    .option('--decrypt', 'decrypt with the keys of the configuration and of PII_ENCRYPTION_KEY')
    .option('--keys-file <file>', 'decrypt with the keys of this file, in the format of svc decrypt')
    .option('--key-id <id>', 'a key to request from svc.pii.kms; repeatable', repeated)
    .option(...broker);
  does(tail, runTail);
}

function addDecrypt(svc: Command): void {
  const decrypt = svc
    .command('decrypt')
    .summary('show envelopes with their encrypted fields readable')
    .description('Shows envelopes with their encrypted fields readable; exit 1 if a field or line fails.')
    .argument(
      '[file]',
      'one envelope or record of the file broker per line, or one JSON document (default: standard input)',
    )
    .option(
      '--keys-file <file>',
      'JSON, { "keys": [{ "id": "…", "key": "<Base64>" }] }, besides the key in PII_ENCRYPTION_KEY; replaces the configuration, unless --config is given',
    )
    .option(
      '--key-id <id>',
      'a key to request from svc.pii.kms, besides the configured keys; repeatable',
      repeated,
    )
    .option(
      '--field <path>',
      'a field to decrypt, as rules write it (customer.email, **.iban); repeatable (default: format v1 anywhere, v0 only where the configuration encrypts)',
      repeated,
    )
    .option('--any-field', 'decrypt format v0 anywhere, even where others copied it to');
  does(decrypt, runDecrypt);
}

/** A position in a command line and the words that may follow. */
interface Place {
  /** `''` for the root, or the commands so far: `outbox replay`. */
  readonly path: string;
  readonly words: readonly Word[];
}

interface Word {
  readonly word: string;
  readonly text: string;
  /** The next word is its value. */
  readonly takesValue: boolean;
}

const shells = ['bash', 'zsh', 'fish'] as const;

/**
 * Prints a completion script. It completes `svc`, not `npx svc`.
 *
 * @throws WrongUse
 */
async function runCompletion(tree: Command, shell: string): Promise<number> {
  const made = { bash, zsh, fish }[shell];
  if (made === undefined) throw new WrongUse(`svc completion takes ${shells.join(', ')}`);
  process.stdout.write(made(placesOf(tree)));
  return 0;
}

function placesOf(command: Command, path = ''): Place[] {
  const inside = command.commands.map((each) => ({
    word: each.name(),
    text: each.summary() || each.description(),
    takesValue: false,
  }));
  const options = [...command.options, help].flatMap(wordsOf);
  const below = command.commands.flatMap((each) => placesOf(each, `${path} ${each.name()}`.trim()));
  return [{ path, words: [...inside, ...options] }, ...below];
}

const help = { long: '--help', description: 'this text', required: false, optional: false } as const;

function wordsOf({
  long,
  description,
  required,
  optional,
}: Pick<Option, 'long' | 'description' | 'required' | 'optional'> | typeof help): Word[] {
  return long ? [{ word: long, text: description, takesValue: required || optional }] : [];
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
const firstLine = (text: string): string => text.split('\n')[0] ?? '';

/** A `case` on the commands so far, which bash and zsh share. */
function cases(places: readonly Place[], line: (place: Place) => string): string {
  return places.map((place) => `    ${quoted(place.path)}) ${line(place)} ;;`).join('\n');
}

/** Collects the commands before the cursor, without options and their values. The name `path` would be PATH in zsh. */
const pathLoop = (
  places: readonly Place[],
  words: string,
  from: string,
  to: string,
): string => `  local typed='' word i takes=0
  for ((i = ${from}; i < ${to}; i++)); do
    word="\${${words}[i]}"
    if ((takes)); then takes=0; continue; fi
    case " ${valued(places)} " in *" $word "*) takes=1; continue ;; esac
    case "$word" in -*) continue ;; esac
    case "\${typed:+$typed }$word" in
${places
  .filter(({ path }) => path !== '')
  .map(({ path }) => `      ${quoted(path)}) typed=${quoted(path)} ;;`)
  .join('\n')}
    esac
  done`;

function valued(places: readonly Place[]): string {
  const all = places.flatMap(({ words }) =>
    words.filter(({ takesValue }) => takesValue).map(({ word }) => word),
  );
  return [...new Set(all)].join(' ');
}

function bash(places: readonly Place[]): string {
  return `# svc completion for bash: source <(svc completion bash)
_svc() {
${pathLoop(places, 'COMP_WORDS', '1', 'COMP_CWORD')}
  local current="\${COMP_WORDS[COMP_CWORD]}" words=''
  if ((takes)); then COMPREPLY=($(compgen -f -- "$current")); return; fi
  case "$typed" in
${cases(places, ({ words }) => `words=${quoted(words.map(({ word }) => word).join(' '))}`)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _svc svc
`;
}

function zsh(places: readonly Place[]): string {
  const described = ({ words }: Place): string =>
    `all=(${words.map(({ word, text }) => quoted(`${word}:${firstLine(text).replaceAll(':', '\\:')}`)).join(' ')})`;
  return `#compdef svc
# svc completion for zsh: source <(svc completion zsh)
_svc() {
  local -a all
${pathLoop(places, 'words', '2', 'CURRENT')}
  if ((takes)); then _files; return; fi
  case "$typed" in
${cases(places, described)}
  esac
  _describe 'svc' all || _files
}
compdef _svc svc
`;
}

function fish(places: readonly Place[]): string {
  const lines = places.flatMap(({ path, words }) => {
    const inside = path === '' ? [] : path.split(' ');
    const seen = inside.map((word) => `__fish_seen_subcommand_from ${word}`);
    const next = places.filter(
      (each) =>
        each.path !== path && each.path.startsWith(path) && each.path.split(' ').length === inside.length + 1,
    );
    const names = next.map((each) => each.path.split(' ').at(-1));
    const when = [
      ...seen,
      ...(names.length > 0 ? [`not __fish_seen_subcommand_from ${names.join(' ')}`] : []),
    ].join('; and ');
    const condition = when === '' ? '' : ` -n ${quoted(when)}`;
    return words.map(({ word, text, takesValue }) => {
      const what = word.startsWith('--') ? `-l ${word.slice(2)}${takesValue ? ' -r' : ''}` : `-f -a ${word}`;
      return `complete -c svc${condition} ${what} -d ${quoted(firstLine(text))}`;
    });
  });
  return `# svc completion for fish: svc completion fish | source\n${lines.join('\n')}\n`;
}
