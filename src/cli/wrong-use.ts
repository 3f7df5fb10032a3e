import type { Command, OptionValues } from 'commander';

/** A usage error: exit code 2. */
export class WrongUse extends Error {}

/** How a project runs svc. Without `--no`, npx would download a package from the registry if svc is not installed. */
export const program = 'npx --no svc';

/** For commands that find no configuration. */
export const settingsInCode =
  'Commands do not see settings that SvcInstrumentation gets in code. Export them from svc.config.ts with defineConfig, which it reads too, or name their file with --config';

/** Adds the common options and the action of a command. */
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

export const group = (svc: Command, name: string): Command => svc.command(name).helpCommand(false);
