import type { Command, OptionValues } from 'commander';

/** Somebody called the command wrongly: exit code 2. */
export class WrongUse extends Error {}

/** How svc is called in a project: without `--no`, npx would run a package of the registry where svc is not installed. */
export const program = 'npx --no svc';

/** For commands that find no configuration. */
export const settingsInCode =
  'Commands do not see settings that SvcInstrumentation gets in code. Export them from svc.config.ts with defineConfig, which it reads too, or name their file with --config';

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
