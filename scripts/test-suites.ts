import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';

// Which files `npm test` runs, and which `npm run test:e2e` runs: each file of test/ is in one of the two.
const root = resolve(import.meta.dirname, '..');

/** Whole applications, other people's programs, browsers, and clusters that are broken on purpose. */
const END_TO_END_FOLDERS = ['e2e', 'faults', 'console', 'ops'];

/** What an everyday suite may require (`test/support/requires.ts`): one Kafka, one PostgreSQL, and the system itself. */
const EVERYDAY_NEEDS = ['kafka', 'postgres', 'proc', 'pipes', 'superuser', 'mounts'];

/** Modules of test/ that install packages, run svc's commands as processes, or start other servers. */
const END_TO_END_MODULES =
  /support\/(packed|run-svc|mysql|mariadb|kms|vault|schema-registry|prometheus|java|avro-readers|cloud-event-readers)\.ts'|scripts\/services\/(mysql|mariadb|s3|kms|vault|schema-registry)\.ts'|\/mysql-under-test\.ts'|\/canary-databases\.ts'/;

/** Files that pass the rules above and take long: they wait for time-outs, start many processes, or load large packages. */
const SLOW: readonly string[] = [
  'test/capture/declare/decorators.test.ts',
  'test/capture/source/maps/bad-maps.test.ts',
  'test/capture/source/maps/esbuild.test.ts',
  'test/capture/source/nesting.test.ts',
  'test/catalog/consumer-types.test.ts',
  'test/catalog/forms.test.ts',
  'test/cli/decrypt.test.ts',
  'test/support/local-servers.test.ts',
];

/** @returns paths from the root, sorted. */
export function everydayFiles(): string[] {
  return allFiles().filter(isEveryday);
}

/** @returns paths from the root, sorted. */
export function endToEndFiles(): string[] {
  return allFiles().filter((file) => !isEveryday(file));
}

function allFiles(): string[] {
  return globSync('test/**/*.test.ts', { cwd: root })
    .map((file) => file.replaceAll('\\', '/'))
    .sort();
}

function isEveryday(file: string): boolean {
  if (END_TO_END_FOLDERS.includes(file.split('/')[1] as string) || SLOW.includes(file)) return false;
  const text = readFileSync(resolve(root, file), 'utf8');
  if (END_TO_END_MODULES.test(text)) return false;
  const needs = [...text.matchAll(/\b(?:requiring|needing)\(\s*(\[[^\]]*\]|'[^']*')/g)].flatMap(
    ([, list = '']) => [...list.matchAll(/'([^']*)'/g)].map(([, name = '']) => name),
  );
  return needs.every((need) => EVERYDAY_NEEDS.includes(need));
}
