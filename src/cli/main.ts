import { version } from '../version.ts';
import { runCheck } from './check.ts';
import { runDecrypt } from './decrypt.ts';

const usage = `svc ${version}: function calls of a Node application as events in Kafka

Usage: svc <command> [options]

Commands
  check       report which publish targets of svc.config.* can be patched; exit 1 when one cannot
  decrypt     show envelopes with their encrypted fields readable: svc decrypt [file], default standard input, one envelope
              or record of the file broker a line; exit 1 when a field or line fails

Options
  --config <file>     configuration file (default: svc.config.* from the working directory upwards)
  --keys-file <file>  decrypt: JSON, { "keys": [{ "id": "…", "key": "<Base64>" }] }; besides the key in PII_ENCRYPTION_KEY
  --json              one JSON document on standard output, for scripts
  --help, -h          this text
  --version, -v       the version
`;

/** Exit codes: 0 all is well, 1 the command found a problem, 2 it was called wrongly. */
function main(args: readonly string[]): number | Promise<number> {
  const [command] = args;
  if (args.includes('--version') || args.includes('-v')) return say(`${version}\n`);
  if (command === undefined || args.includes('--help') || args.includes('-h')) return say(usage);
  if (command === 'check') return runCheck(args.slice(1));
  if (command === 'decrypt') return runDecrypt(args.slice(1));
  process.stderr.write(`svc: unknown command "${command}"; see svc --help\n`);
  return 2;
}

function say(text: string): number {
  process.stdout.write(text);
  return 0;
}

void Promise.resolve(main(process.argv.slice(2))).then((code) => {
  process.exitCode = code;
});
