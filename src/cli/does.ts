import type { Command, OptionValues } from 'commander';

/** What a command does, and the options that all have. */
export function does<O extends OptionValues>(
  command: Command,
  run: (options: O, ...rest: string[]) => Promise<number>,
  { json = true, config = true } = {},
): Command {
  if (config)
    command.option(
      '--config <file>',
      'configuration file (default: svc.config.* of the project, from the working directory up)',
    );
  if (json) command.option('--json', 'one JSON document on standard output, for scripts');
  return command.helpOption('-h, --help', 'this text').action(async (...all: unknown[]) => {
    const [options, ...rest] = all.slice(0, -1).reverse();
    process.exitCode = await run(options as O, ...(rest.reverse().flat() as string[]));
  });
}

/** `svc <name> <command>`. */
export const group = (svc: Command, name: string): Command => svc.command(name).helpCommand(false);
