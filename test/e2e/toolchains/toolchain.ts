import type { Dependencies } from '../../support/packed.ts';
import type { Subject } from '../support/subject.ts';

/** One way to run TypeScript, or what a compiler or bundler made of it. */
export interface Toolchain {
  readonly id: string;
  /** As the table in docs/internals/capture.md has it. */
  readonly title: string;
  readonly app: 'esm' | 'cjs';
  /** Default: TC39 decorators in ES modules, legacy ones in CommonJS. */
  readonly decorators?: 'legacy';
  /** Beside those of the application. */
  readonly compilerOptions?: Readonly<Record<string, unknown>>;
  /** Run by `npm test` too; the others by the matrix. */
  readonly isEveryday?: boolean;
  /** A script of the application folder that builds; run by the Node that runs the tests. */
  readonly build?: string;
  /** Where `orders` and `main` are, for the configuration and for the command line. */
  readonly file: (name: string) => string;
  /** Command lines before the entry file, by what the test calls them. `bare` is the one without svc. */
  readonly bare: readonly string[];
  readonly ways: Readonly<Record<string, readonly string[]>>;
  readonly env?: NodeJS.ProcessEnv;
  /** Why a way cannot capture on this Node; the suite checks that the application runs all the same. */
  readonly unreachable?: (subject: Subject, way: string) => RegExp | undefined;
  /** Events other than those of `shopEvents`. */
  readonly events?: Readonly<Record<string, number>>;
  /** What every noted line of a stack looks like, where a source map leads to the source. */
  readonly lines?: RegExp;
  /** What svc says about targets that this toolchain makes unreachable. */
  readonly says?: RegExp;
}

/** Installed on demand into the cache, pinned: none of them is a dependency of this repository. */
export const toolchainPackages: Dependencies = {
  '@swc-node/register': '1.11.1',
  '@swc/core': '1.16.20',
  esbuild: '0.28.2',
  'esbuild-register': '3.6.0',
  'reflect-metadata': '0.2.2',
  'ts-node': '10.9.2',
  tsx: '4.23.15',
  typescript: '5.9.3',
};
