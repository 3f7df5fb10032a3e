// cli/: the commands of `svc`, one file each.

import { version } from '../ground/version.ts';
import { runBackup } from './backup.ts';
import { runCheck } from './check.ts';
import { runDecrypt } from './decrypt.ts';
import { runDlq } from './dlq.ts';
import { helpOf, program, subcommandsOf } from './help.ts';
import { runOutbox } from './outbox/outbox.ts';
import { runRelayCommand } from './outbox/relay.ts';
import { WrongUse } from './recovery-options.ts';

/** Exit codes: 0 all is well, 1 the command found a problem, 2 it was called wrongly. */
async function main(args: readonly string[]): Promise<number> {
  const [command] = args;
  // Behind `--` stands another command.
  const own = args.includes('--') ? args.slice(0, args.indexOf('--')) : args;
  if (own.includes('--version') || own.includes('-v')) return say(`${version}\n`);
  if (command === undefined || own.includes('--help') || own.includes('-h')) return say(helpOf(own));
  if (command === 'check') return runCheck(args.slice(1));
  if (command === 'dlq') return runDlq(args.slice(1));
  if (command === 'backup') return runBackup(args.slice(1));
  if (command === 'outbox') return runOutbox(args.slice(1));
  if (command === 'relay') return runRelayCommand(args.slice(1));
  if (command === 'decrypt') return runDecrypt(args.slice(1));
  process.stderr.write(`svc: unknown command "${command}"; see ${program} --help\n`);
  return 2;
}

/** Of the command that was meant, with a space behind it. */
function nameIn([command = '', sub = '']: readonly string[]): string {
  if (subcommandsOf(command).includes(sub)) return `${command} ${sub} `;
  return `${command} `;
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
    process.stderr.write(`svc: ${error.message}; see ${program} ${nameIn(process.argv.slice(2))}--help\n`);
    process.exitCode = 2;
  },
);
