import { installPacked } from '../../support/packed.ts';
import { libraries } from './libraries.ts';

/** One for all suites that run every day; the other libraries may not go together. */
export function everydayApplication(): string {
  const everyday = libraries.filter((library) => library.isEveryday);
  const dependencies = everyday.map((library) => library.dependencies);
  return installPacked('outbox', Object.assign({ postgres: '3.4.9', esbuild: '0.28.2' }, ...dependencies));
}
