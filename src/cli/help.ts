import { version } from '../ground/version.ts';
import { passwordReference } from './outbox/password-reference.ts';

// What each command is for, and the options that it takes: the one list that all texts of `--help` are made from.

/** How svc is called in a project: without `--no`, npx would run a package of the registry where svc is not installed. */
export const program = 'npx --no svc';

/** For commands that find no configuration. */
export const settingsInCode =
  'Settings that SvcInstrumentation is given in code are not seen here: export them from svc.config.ts with defineConfig, which it reads too, or name their file with --config';

const commands: Readonly<Record<string, string>> = {
  check: 'report which publish targets of svc.config.* can be patched',
  decrypt: 'show envelopes with their encrypted fields readable; exit 1 when a field or line fails',
  'dlq list': 'list the events in the dead letter topic',
  'dlq recover': 'send them to the topics they were meant for',
  'backup list': 'list the events in the local backup, with --s3 in the bucket',
  'backup restore': 'send them to the topics they were meant for',
  'outbox stats': 'how many events there are in the table of the outbox, by status',
  'outbox list': 'list events, oldest first, never their content',
  'outbox replay':
    'send events again to their topics, whatever their status (needs --since); the rows stay as they are',
  'outbox retry-failed': 'FAILED events become PENDING again, with all their tries',
  'outbox discard': 'delete events: FAILED ones, unless --status names others',
  'outbox ddl': 'print the tables as SQL, with the rights of two users; connects to nothing',
  'outbox migrate': 'make or update the tables, as the user of svc.outbox.datasource.url',
  'outbox check': 'whether the tables are there, and that user may do what a relay does',
  'outbox debezium':
    "print the configuration of Debezium's connector, or the SQL it needs; connects to nothing",
  relay: 'send the events of the outbox without the application, until it is stopped',
};

/** What stands behind the options, where they are not all. */
const forms: Readonly<Record<string, string>> = {
  decrypt: '[options] [file]',
  check: '[options] [-- node <file>]',
};

const notes: Readonly<Record<string, string>> = {
  check: `Behind -- stands how the application is started (default: scripts.start of package.json): its imports are followed, and exit 1
says that it loads a file which is compiled from the one that a target names.
`,
  decrypt: `The file has one envelope, or record of the file broker, a line, or is one JSON document (default: standard input).
`,
  outbox: `Exit codes: 0 done, 1 something is left or wrong, 2 called wrongly. Ctrl-C ends after the batch under way, and says what was done.
`,
  relay: `It runs until SIGTERM or Ctrl-C, then finishes the batch under way within svc.shutdown.timeout-ms and gives its rows back to
other relays. Outages of the database and the broker it waits out. Set svc.outbox.publisher-enabled: false for the application
that leaves the sending to it. Health and metrics are on the management port.

Exit codes: 0 stopped in order, 1 it cannot begin or sends were under way at the end, 2 the outbox is off or the configuration wrong.
`,
};

const recovery = /^(dlq|backup) /;
const filtered = /^outbox (list|replay|retry-failed|discard)$/;
const changing = /^outbox (replay|retry-failed|discard)$/;
const debezium = /^outbox debezium$/;

/** An option, what it does, and the commands that take it. */
const options: readonly (readonly [string, string, RegExp])[] = [
  [
    '--online',
    'also what broker, bucket, schema registry and the database of the outbox would let the application do; writes no event',
    /^check$/,
  ],
  [
    '--broker <host:port,...>',
    'instead of svc.broker.bootstrap-servers',
    /^(dlq|backup) |^outbox replay$|^relay$/,
  ],
  ['--dlq-topic <topic>', 'instead of svc.broker.dlq-topic', /^dlq /],
  ['--group <name>', 'consumer group that remembers what is recovered (default: svc-dlq-recovery)', /^dlq /],
  ['--dir <folder>', 'instead of svc.broker.dlq-backup-path', /^backup /],
  ['--file <file>', 'this file alone', /^backup /],
  ['--s3', 'the bucket of svc.broker.backup.s3-bucket', /^backup /],
  ['--type <event type>', 'only these; may be given several times', recovery],
  ['--topic <topic>', 'only events meant for this topic; may be given several times', recovery],
  [
    '--since, --until <time>',
    'only events stored in this time: 2026-03-04T10:00:00Z, or 90m for that long ago',
    recovery,
  ],
  ['--to <topic>', 'where events go whose own topic is not known', recovery],
  ['--rate <number>', 'events a second (default: as fast as the broker takes them)', recovery],
  ['--type <event type>', 'only these', filtered],
  ['--topic <topic>', 'only events for this topic', filtered],
  ['--aggregate-type <type>', 'only events of such aggregates', filtered],
  ['--aggregate-id <id>', 'only events of this aggregate', filtered],
  ['--status <status>', 'PENDING, PUBLISHED or FAILED; may be given several times', filtered],
  [
    '--since, --before <time>',
    'only events stored in this time: 2026-03-04T10:00:00Z, or 90m for that long ago',
    filtered,
  ],
  ['--limit <number>', 'so many at most (list and replay: 1000 by default)', filtered],
  [
    '--after <number>',
    'go on behind what a replay that was stopped has sent, which names the number',
    /^outbox replay$/,
  ],
  ['--all', 'every event, PENDING ones as well; without it a filter is needed', /^outbox discard$/],
  ['--dry-run', 'list what would be sent, send nothing', recovery],
  ['--dry-run', 'list what would be taken, and change nothing', changing],
  ['--dialect <name>', 'postgres, mysql or sqlite (default: of svc.outbox.datasource.url)', /^outbox ddl$/],
  ['--table <name>', 'instead of svc.outbox.table', /^outbox ddl$/],
  ['--from <version>', 'only what tables of that version lack', /^outbox ddl$/],
  ['--partitioned', 'new tables have a partition for each day (PostgreSQL)', /^outbox (ddl|migrate)$/],
  [
    '--role app=<user>,relay=<user>',
    'the user of the application, who inserts, and that of svc.outbox.datasource.url',
    /^outbox ddl$/,
  ],
  ['--sql', 'what it needs in the database, in place of its configuration', debezium],
  ['--name <name>', 'of the connector (default: svc-outbox)', debezium],
  [
    '--topic-prefix <prefix>',
    'of its own topics, none of which are those of events (default: its name)',
    debezium,
  ],
  ['--slot, --publication <name>', 'in PostgreSQL (default: svc_outbox)', debezium],
  ['--connector <kind>', 'postgres, mysql or mariadb (default: of svc.outbox.datasource.url)', debezium],
  ['--user <user>', 'who may replicate (default: the user of that URL)', debezium],
  [
    '--password <reference>',
    `where Kafka Connect finds the password (default: ${passwordReference})`,
    debezium,
  ],
  ['--header <name>', 'also this header, of targets in code; may be given several times', debezium],
  [
    '--keys-file <file>',
    'JSON, { "keys": [{ "id": "…", "key": "<Base64>" }] }, besides the key in PII_ENCRYPTION_KEY; instead of the configuration, unless --config names one',
    /^decrypt$/,
  ],
  [
    '--key-id <id>',
    'a key to ask the service of svc.pii.kms for, besides those that the configuration names; may be given several times',
    /^decrypt$/,
  ],
  [
    '--field <path>',
    'a field to decrypt, as rules write it (customer.email, **.iban); may be given several times (default: format v1 wherever it stands, v0 where the rules of the configuration encrypt)',
    /^decrypt$/,
  ],
  [
    '--any-field',
    'format v0 wherever it stands. It opens where others have copied it to as well',
    /^decrypt$/,
  ],
  [
    '--config <file>',
    'configuration file (default: svc.config.* of the project, from the working directory up)',
    /./,
  ],
  ['--json', 'one JSON document on standard output, for scripts', /^(?!relay)/],
  ['--help, -h', 'this text', /./],
];

/** The text for `svc [command] [subcommand] --help`; of what is no command, that of all. */
export function helpOf([command = '', sub = '']: readonly string[]): string {
  const name = [command, `${command} ${sub}`].find((each) => Object.hasOwn(commands, each));
  if (name !== undefined) return helpOfOne(name);
  const group = Object.keys(commands).filter((each) => each.startsWith(`${command} `));
  return group.length > 0 ? helpOfGroup(command, group) : helpOfAll();
}

/** Those of `svc <command>`, for whoever names none. */
export const subcommandsOf = (command: string): readonly string[] =>
  Object.keys(commands).flatMap((each) =>
    each.startsWith(`${command} `) ? [each.slice(command.length + 1)] : [],
  );

function helpOfOne(name: string): string {
  const own = options.filter(([, , takes]) => takes.test(name));
  const [first = ''] = name.split(' ');
  const note = notes[name] ?? notes[first];
  return [
    `svc ${name}: ${commands[name]}\n\nUsage: ${program} ${name} ${forms[name] ?? '[options]'}\n\n`,
    ...(note === undefined ? [] : [`${note}\n`]),
    `Options\n${columns(own)}`,
  ].join('');
}

function helpOfGroup(command: string, names: readonly string[]): string {
  const rows = names.map((name) => [name.slice(command.length + 1), commands[name] ?? ''] as const);
  return `Usage: ${program} ${command} <command> [options]\n\nCommands\n${columns(rows)}\n${program} ${command} <command> --help shows the options of one.\n`;
}

function helpOfAll(): string {
  const rows = Object.entries(commands);
  return `svc ${version}: function calls of a Node application as events in Kafka

Usage: ${program} <command> [options]

Commands
${columns(rows)}
${program} <command> --help shows the options of one, ${program} --version the version.
`;
}

/** A line is not longer than this, where its words allow it. */
const lineWidth = 130;

function columns(rows: readonly (readonly [string, string, ...unknown[]])[]): string {
  const width = Math.max(...rows.map(([name]) => name.length)) + 2;
  return rows
    .map(([name, text]) => `  ${name.padEnd(width)}${wrapped(text, lineWidth - width - 2, width + 2)}\n`)
    .join('');
}

function wrapped(text: string, most: number, indent: number): string {
  const lines: string[] = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) as string;
    if (line !== '' && line.length + word.length >= most) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines.join(`\n${' '.repeat(indent)}`);
}
