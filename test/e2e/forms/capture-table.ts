import { neighbours } from '../toolchains/neighbours.ts';
import { toolchains } from '../toolchains/toolchains.ts';
import { cjsForms } from './cjs.ts';
import { entryForms } from './entries.ts';
import { esmDefinitions } from './esm-definitions.ts';
import { esmFactories } from './esm-factories.ts';
import { esmLoading } from './esm-loading.ts';
import { esmResults } from './esm-results.ts';
import type { Form } from './form.ts';
import { packageForms } from './packages.ts';
import { packageCjsForms } from './packages-cjs.ts';
import { targetForms } from './targets.ts';
import { strippedForms } from './stripped.ts';
import { unreachableForms } from './unreachable.ts';

interface Row {
  readonly title: string;
  /** Ids of the tests that prove it. */
  readonly tests: readonly string[];
  /** What stands in the column of Node 22 instead of ✓. */
  readonly on22?: string;
}

const row = ({ id, title }: { id: string; title: string }): Row => ({ title, tests: [id] });

/** Proven by toolchains whose application is decorated. */
const decorators: readonly Row[] = [
  {
    title: '`@PublishEvent` as a TC39 decorator: method, static method, field with an arrow function',
    tests: ['tsx-esm', 'tsc-esm', 'swc-esm', 'esbuild-esm'],
  },
  {
    title: '`@PublishEvent` as a legacy TypeScript decorator: method, static method',
    tests: ['tsx-cjs', 'ts-node', 'tsc-cjs', 'swc-cjs', 'esbuild-cjs'],
  },
  {
    title: 'A method that is decorated and configured publishes once, by the configuration',
    tests: ['tsx-esm', 'tsc-esm', 'tsc-cjs'],
  },
];

const sections: readonly [title: string, rows: readonly Row[]][] = [
  ['Functions in ES modules', [...esmDefinitions, ...esmFactories].map(row)],
  ['Ways to load a module', [...esmLoading, ...entryForms].map(row)],
  ['CommonJS', cjsForms.map(row)],
  ['Results and calls', esmResults.map(row)],
  ['Options of a target', targetForms.map(row)],
  ['Decorators', decorators],
  ['Packages in node_modules', [...packageForms, ...packageCjsForms].map(row)],
  [
    'TypeScript, compilers and bundlers',
    [...strippedForms.map((form) => ({ ...row(form), on22: '✓ from 22.18' })), ...toolchains.map(row)],
  ],
  ['With other tools', neighbours.map(row)],
];

/** Ids of every row, those of tests that several rows share once. */
export const tableIds: ReadonlySet<string> = new Set([
  ...sections.flatMap(([, rows]) => rows.flatMap(({ tests }) => tests)),
  ...unreachableForms.map(({ id }) => id),
]);

/** The part of docs/internals/capture.md that follows from the forms. */
export function captureTable(): string {
  return sections.flatMap(sectionLines).join('\n');
}

/** The part of docs/capture.md: what cannot be captured. */
export function unreachableTable(): string {
  return unreachableLines().join('\n');
}

function sectionLines([title, rows]: readonly [string, readonly Row[]]): string[] {
  return [
    `### ${title}`,
    '',
    '| Form | 22 | 24 | 26 | Test |',
    '|---|---|---|---|---|',
    ...rows.map((each) => line(each.title, each.on22 ?? '✓', '✓', '✓', codes(each.tests))),
    '',
  ];
}

function unreachableLines(): string[] {
  return [
    '| You have | Do this instead |',
    '|---|---|',
    ...unreachableForms.map(({ title, wayRound = '' }: Form) => line(title, wayRound)),
    line(
      'Field with an arrow function under a legacy decorator',
      'Make it a method, use TC39 decorators, or name it in the configuration',
    ),
    '',
  ];
}

const codes = (ids: readonly string[]): string => ids.map((id) => `\`${id}\``).join(' ');
const line = (...cells: string[]): string => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
