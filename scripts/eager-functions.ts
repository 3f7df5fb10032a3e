// The last step of `npm run build`. V8 compiles a function when it is first called, and Node's compile cache keeps what was
// compiled before anything was called: each start would compile some 900 functions anew. In parentheses a function is compiled,
// and kept, with its file (https://v8.dev/blog/preparser#pife). So an application is started once, and what it called is marked.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { buildSync } from 'esbuild';
import MagicString from 'magic-string';
import { parseSync, type Span, Visitor, type VisitorObject } from 'oxc-parser';

const root = resolve(import.meta.dirname, '..');
export const rangeOf = ({ start, end }: Span) => `${start}-${end}`;

/** An ES module, a CommonJS module and a bundle with a source map, each with a target. */
const application = {
  'main.mjs': `import './module.mjs'; import './common.cjs'; import './dist/bundle.mjs';`,
  'module.mjs': `export async function greet(name) { return { name }; }\nawait greet('world');`,
  'common.cjs': `async function greet(name) { return { name }; }\nvoid greet('world');`,
  'source.ts': `export async function greet(name: string) { return { name }; }\nvoid greet('world');`,
  'svc.config.json': JSON.stringify({
    svc: {
      broker: { topic: 'greetings' },
      targets: ['module.mjs', 'common.cjs', 'source.ts'].map((file) => ({
        ...{ module: `./${file}`, function: 'greet' },
      })),
    },
    management: { server: { port: 0 } },
  }),
};

/** By file of `dist`: what a start calls, parsing its files, and with the list of `svc manifest`. */
function calledAtStart(): Map<string, Set<string>> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-start-'));
  // Neither an SVC_ variable of whoever builds, nor Node's compile cache: what comes from it is not counted.
  const own = Object.entries(process.env).filter(([name]) => !/^(SVC_|NODE_)/.test(name));
  const run = (args: readonly string[], env = {}) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, args, {
      ...{ cwd: folder, encoding: 'utf8', env: { ...Object.fromEntries(own), ...env } },
    });
    if (status !== 0) throw new Error(`${args.join(' ')} ended with ${status}: ${stdout}${stderr}`);
  };
  const coverage = join(folder, 'coverage');
  const start = () => {
    const register = pathToFileURL(join(root, 'dist/register.mjs')).href;
    run(['--import', register, 'main.mjs'], { NODE_V8_COVERAGE: coverage });
  };
  try {
    for (const [file, text] of Object.entries(application)) writeFileSync(join(folder, file), text);
    buildSync({
      ...{ absWorkingDir: folder, entryPoints: ['source.ts'], outfile: 'dist/bundle.mjs' },
      ...{ format: 'esm', minify: true, sourcemap: 'linked', logLevel: 'error' },
    });
    start();
    run([join(root, 'bin/svc.cjs'), 'manifest', 'dist']);
    start();
    return readCoverage(coverage);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What Node writes for NODE_V8_COVERAGE. */
interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly ranges: readonly { startOffset: number; endOffset: number; count: number }[];
    }[];
  }[];
}

function readCoverage(folder: string): Map<string, Set<string>> {
  const dist = pathToFileURL(join(root, 'dist/')).href;
  const called = new Map<string, Set<string>>();
  for (const name of readdirSync(folder)) {
    const { result } = JSON.parse(readFileSync(join(folder, name), 'utf8')) as Coverage;
    for (const { url, functions } of result) {
      if (!url.startsWith(dist) || !url.endsWith('.cjs')) continue;
      const file = fileURLToPath(url);
      const own = called.get(file) ?? new Set();
      called.set(file, own);
      for (const { ranges } of functions) {
        const [{ startOffset, endOffset, count } = { startOffset: 0, endOffset: 0, count: 0 }] = ranges;
        if (count > 0) own.add(rangeOf({ start: startOffset, end: endOffset }));
      }
    }
  }
  return called;
}

/**
 * The text with each function of `called` in parentheses, by `start-end` as `rangeOf` says it. A declaration cannot stand in them: it
 * becomes a variable at the beginning of its block, where it was known before. Methods stay as they are.
 */
export function withEager(file: string, text: string, called: ReadonlySet<string>): string {
  const marked = new MagicString(text);
  const methods = new Set<unknown>();
  /** Where `var` means what a declaration means, and is read without a check whether it is there yet. */
  const bodies = new Set<unknown>();
  const wrap = ({ start, end }: Span, before: string, after: string) =>
    marked.appendRight(start, before).appendLeft(end, after);
  const expression = (node: Span & { readonly body: unknown }) => {
    bodies.add(node.body);
    if (!methods.has(node) && called.has(rangeOf(node))) wrap(node, '(', ')');
  };
  const block = ({ body }: { readonly body: Body }, keyword: 'var' | 'const') => {
    const first = body.find((node) => !('directive' in node && typeof node.directive === 'string'));
    for (const node of body) {
      if (first === undefined || node.type !== 'FunctionDeclaration' || !called.has(rangeOf(node))) continue;
      wrap(node, `${keyword} ${node.id?.name} = (`, ');\n');
      if (node !== first) marked.move(node.start, node.end, first.start);
    }
  };
  new Visitor({
    MethodDefinition: ({ value }) => void methods.add(value),
    Property: ({ method, kind, value }) => void ((method || kind !== 'init') && methods.add(value)),
    FunctionDeclaration: ({ body }) => void bodies.add(body),
    FunctionExpression: expression,
    ArrowFunctionExpression: expression,
    BlockStatement: (node) => block(node, bodies.has(node) ? 'var' : 'const'),
    Program: (node) => block(node, 'var'),
  }).visit(parse(file, text));
  const after = marked.toString();
  parse(file, after);
  return after;
}

type Body = Parameters<NonNullable<VisitorObject['Program']>>[0]['body'];

function parse(file: string, text: string) {
  const { program, errors } = parseSync(file, text, { sourceType: 'commonjs' });
  if (errors[0] !== undefined) throw new Error(`${file}: ${errors[0].message}`);
  return program;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const called = calledAtStart();
  const count = [...called.values()].reduce((sum, { size }) => sum + size, 0);
  if (count < 500) throw new Error(`a start called only ${count} functions of dist`);
  for (const [file, own] of called) writeFileSync(file, withEager(file, readFileSync(file, 'utf8'), own));
}
