// cli/: the commands of `svc`, one file each; commands.ts names them all.

import { type Command, CommanderError } from 'commander';
import { consoleLogger, useLogger } from '../observe/logger.ts';
import { commandTree } from './commands.ts';
import { WrongUse } from './terminal.ts';

/** Exit codes: 0 success, 1 the command found a problem, 2 usage error. */
async function main(args: readonly string[]): Promise<void> {
  useLogger(consoleLogger('warn'));
  const svc = commandTree();
  try {
    await svc.parseAsync(asOptions(args), { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) {
      process.exitCode = 0;
      return;
    }
    const isWrongUse = error instanceof WrongUse || error instanceof CommanderError;
    if (!isWrongUse) throw error;
    process.exitCode = 2;
    const command = commandIn(svc, args);
    process.stderr.write(`svc: ${reasonOf(error, command)}; see ${helpOf(command)}\n`);
  }
}

/** `help`, `help tail` and `version` exist because npx takes `--help` and `--version` for itself. */
function asOptions(args: readonly string[]): readonly string[] {
  const [first, ...rest] = args;
  if (first === 'help') return [...rest, '--help'];
  if (first === 'version' && rest.length === 0) return ['--version'];
  return first === undefined ? ['--help'] : args;
}

/** The command that prints the help of this command. */
function helpOf(command: Command): string {
  return command.parent === null ? `${command.name()} help` : `${nameOf(command)} --help`;
}

/** The deepest subcommand that the arguments name. */
function commandIn(command: Command, [name, ...rest]: readonly string[]): Command {
  const inside = command.commands.find((each) => each.name() === name);
  return inside === undefined ? command : commandIn(inside, rest);
}

function nameOf(command: Command): string {
  return command.parent === null ? command.name() : `${nameOf(command.parent)} ${command.name()}`;
}

/** Puts "error: unknown option '--jsn'\n(Did you mean --json?)" on one line. */
function reasonOf({ message }: Error, command: Command): string {
  if (message !== '(outputHelp)')
    return message
      .replace(/^error: /, '')
      .replace(/\.$/, '')
      .replaceAll('\n', ' ');
  return `${command.name()} takes ${command.commands.map((each) => each.name()).join(', ')}`;
}

// The reader has closed the pipe (`svc backup list | head`).
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
});

// Stays 1 if the process runs out of work before the command has ended.
process.exitCode = 1;
void main(process.argv.slice(2));
