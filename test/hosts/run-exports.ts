import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { freshFolder, runApp, writeFiles } from '../e2e/support/run-app.ts';
import { installPacked } from '../support/packed.ts';

const program = resolve(import.meta.dirname, 'fixtures/exports/main.mjs');
const TIMEOUT_MS = 240_000;

/** Packages that people use, ES modules and CommonJS, with the version that is compared. */
const packages = JSON.parse(
  readFileSync(resolve(import.meta.dirname, 'fixtures/exports/packages.json'), 'utf8'),
) as Readonly<Record<string, string>>;

type Told = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** What stays different, and why. */
const known: Readonly<Record<string, string>> = {
  'i18next#changeLanguage':
    'const changeLanguage = instance.changeLanguage: the object keeps the function itself',
  'i18next#constructor': 'the same, of what require gives',
  'iconv-lite#IconvLiteDecoderStream': 'a class whose prototype.constructor is read-only',
  'koa#default': 'a class that hands itself out by the name that a class expression has within itself',
};

/** Which of the functions of a package is the target. */
const picks: Readonly<Record<string, (functions: readonly string[], module: string) => string | undefined>> =
  {
    first: (functions) => functions[0],
    last: (functions) => functions.at(-1),
    chosen: (_, module) => chosen[module],
  };

/** Of which something was different once: a module with a `Symbol` of its own, what an object has as well, a class under two names. */
const chosen: Readonly<Record<string, string>> = {
  effect: 'Schema.ArrayEnsure',
  nodemailer: 'default.createTestAccount',
  stripe: 'default',
  zod: 'locales.fr',
};

/** Waits synchronously for npm, like `installPacked`. */
export const installExports = (): string => installPacked('hosts-exports', packages);

/**
 * What differs between the exports of packages without svc and with one target in each, by package; loaded by `import` first, and
 * by `require` first.
 * @param application of `installExports`
 */
export async function differingExports(application: string): Promise<string[]> {
  const folder = freshFolder(application, 'exports');
  const run = async (first: string, isUnder: boolean, names: readonly string[]): Promise<Told> => {
    const result = join(folder, 'result.json');
    const { code, stderr } = await runApp({
      node: process.execPath,
      cwd: folder,
      args: [...(isUnder ? ['--import', 'svc/register'] : []), 'main.mjs'],
      env: { FIRST: first, RESULT: result, PACKAGES: JSON.stringify(names), NODE_NO_WARNINGS: '1' },
      timeoutMs: TIMEOUT_MS,
    });
    if (code !== 0) throw new Error(`the exports of packages cannot be read: ${stderr}`);
    return JSON.parse(readFileSync(result, 'utf8')) as Told;
  };
  writeFiles(folder, { 'main.mjs': readFileSync(program, 'utf8'), 'package.json': '{}' });
  const told: string[] = [];
  for (const first of ['import', 'require']) {
    const without = await run(first, false, Object.keys(packages));
    for (const [pick, choose] of Object.entries(picks)) {
      const targets = Object.entries(without).flatMap(([module, { functions }]) => {
        const name = choose(functions as string[], module);
        return name === undefined
          ? []
          : [{ module, function: name, eventType: 'CALLED', payload: '{ called: true }' }];
      });
      const svc = { broker: { client: 'memory', topic: 'events' }, log: { level: 'off' }, targets };
      writeFiles(folder, { 'svc.config.json': JSON.stringify({ svc }) });
      const names = targets.map(({ module }) => module);
      const under = await run(first, true, names);
      for (const { module, function: name } of targets) {
        if (Object.hasOwn(known, `${module}#${name}`)) continue;
        const differs = Object.keys(without[module] ?? {}).filter(
          (key) =>
            key !== 'functions' &&
            JSON.stringify(without[module]?.[key]) !== JSON.stringify(under[module]?.[key]),
        );
        told.push(...differs.map((key) => `${module}#${name} (${first} first, ${pick} function): ${key}`));
      }
    }
  }
  return told;
}
