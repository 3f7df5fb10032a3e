// cli/: the commands of `svc`, one file each.

import { version } from '../ground/version.ts';
import { runBackup } from './backup.ts';
import { runCheck } from './check.ts';
import { runDecrypt } from './decrypt.ts';
import { runDlq } from './dlq.ts';
import { outboxUsage, runOutbox } from './outbox/outbox.ts';
import { relayUsage, runRelayCommand } from './outbox/relay.ts';
import { WrongUse } from './recovery-options.ts';

const usage = `svc ${version}: function calls of a Node application as events in Kafka

Usage: svc <command> [options]

Commands
  check            report which publish targets of svc.config.* can be patched; exit 1 when one cannot
                   with --online also what the broker would let the application do, without writing anything there
  decrypt [file]   show envelopes with their encrypted fields readable (default: standard input, one envelope or record of
                   the file broker a line); exit 1 when a field or line fails
  dlq list         list the events in the dead letter topic
  dlq recover      send them to the topics they were meant for
  backup list      list the events in the local backup, with --s3 in the bucket
  backup restore   send them to the topics they were meant for
  outbox <command> the events in the table of the outbox: stats, list, replay, retry-failed, discard, ddl, migrate, check, debezium
                   (svc outbox --help)
  relay            send the events of the outbox without the application, until it is stopped (svc relay --help)

Options of dlq and backup
  --broker <host:port,...>   instead of svc.broker.bootstrap-servers
  --dlq-topic <topic>        dlq: instead of svc.broker.dlq-topic
  --group <name>             dlq: consumer group that remembers what is recovered (default: svc-dlq-recovery)
  --dir <folder>             backup: instead of svc.broker.dlq-backup-path
  --file <file>              backup: this file alone
  --s3                       backup: the bucket of svc.broker.backup.s3-bucket
  --type <event type>        only these; may be given several times
  --topic <topic>            only events meant for this topic; may be given several times
  --since, --until <time>    only events stored in this time: 2026-03-04T10:00:00Z, or 90m for that long ago
  --to <topic>               where events go whose own topic is not known
  --rate <number>            events a second (default: as fast as the broker takes them)
  --dry-run                  list what would be sent, send nothing

Options
  --config <file>     configuration file (default: svc.config.* of the project, from the working directory up)
  --keys-file <file>  decrypt: JSON, { "keys": [{ "id": "…", "key": "<Base64>" }] }, besides the key in PII_ENCRYPTION_KEY;
                      instead of the configuration, unless --config names one
  --key-id <id>       decrypt: a key to ask the service of svc.pii.kms for, besides those that the configuration names; may be
                      given several times
  --field <path>      decrypt: a field to decrypt, as rules write it (customer.email, **.iban); may be given several times
                      (default: format v1 wherever it stands, v0 where the rules of the configuration encrypt)
  --any-field         decrypt: format v0 wherever it stands. It opens where others have copied it to as well
  --json              one JSON document on standard output, for scripts
  --help, -h          this text
  --version, -v       the version
`;

/** Exit codes: 0 all is well, 1 the command found a problem, 2 it was called wrongly. */
async function main(args: readonly string[]): Promise<number> {
  const [command] = args;
  if (args.includes('--version') || args.includes('-v')) return say(`${version}\n`);
  const isHelp = args.includes('--help') || args.includes('-h');
  if (command === 'outbox' && isHelp) return say(outboxUsage);
  if (command === 'relay' && isHelp) return say(relayUsage);
  if (command === undefined || isHelp) return say(usage);
  if (command === 'check') return runCheck(args.slice(1));
  if (command === 'dlq') return runDlq(args.slice(1));
  if (command === 'backup') return runBackup(args.slice(1));
  if (command === 'outbox') return runOutbox(args.slice(1));
  if (command === 'relay') return runRelayCommand(args.slice(1));
  if (command === 'decrypt') return runDecrypt(args.slice(1));
  process.stderr.write(`svc: unknown command "${command}"; see svc --help\n`);
  return 2;
}

function say(text: string): number {
  process.stdout.write(text);
  return 0;
}

// Whoever reads the output has seen enough (`svc backup list | head`).
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
});

// Until the command has ended: a process that runs out of work before has not done it.
process.exitCode = 1;
main(process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code;
  },
  (error: unknown) => {
    if (!(error instanceof WrongUse)) throw error;
    process.stderr.write(`svc: ${error.message}; see svc --help\n`);
    process.exitCode = 2;
  },
);
