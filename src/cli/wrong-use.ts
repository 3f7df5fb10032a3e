/** Somebody called the command wrongly: exit code 2. */
export class WrongUse extends Error {}

/** How svc is called in a project: without `--no`, npx would run a package of the registry where svc is not installed. */
export const program = 'npx --no svc';

/** For commands that find no configuration. */
export const settingsInCode =
  'Settings that SvcInstrumentation is given in code are not seen here: export them from svc.config.ts with defineConfig, which it reads too, or name their file with --config';
