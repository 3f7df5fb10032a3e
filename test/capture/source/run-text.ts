import { readFileSync } from 'node:fs';
import { createRequire, stripTypeScriptTypes } from 'node:module';
import { compileFunction } from 'node:vm';
import type { Call } from '../../../src/capture/call.ts';
import { runtimeTargets } from '../../../src/capture/source/capture-runtime.ts';
import { parseFunctionPath } from '../../../src/capture/source/function-path.ts';
import { rewrite } from '../../../src/capture/source/rewrite-text.ts';
import { recordingSlot } from '../recording-slot.ts';

export type TextKind = 'esm' | 'cjs' | 'ts';

// biome-ignore lint/suspicious/noExplicitAny: what a test's own text exports is known to that test only.
export type Exports = any;

export interface Captured {
  readonly text: string;
  readonly parameterNames: readonly string[] | undefined;
  /** What the target's text or run could not do. */
  readonly problem: string | undefined;
  readonly calls: Call[];
  run(): Promise<Exports>;
}

const suffixes: Record<TextKind, string> = { esm: 'mjs', cjs: 'cjs', ts: 'ts' };
let count = 0;

/** Inserts the calls for one target into a text, ready to run with a slot that keeps the calls. */
export function captured(
  text: string,
  functionPath: string,
  kind: TextKind,
  imports = new Map<string, string>(),
): Captured {
  const state: { names: readonly string[] | undefined; problem: string | undefined } = {
    names: undefined,
    problem: undefined,
  };
  const id = `test-${++count}#${functionPath}`;
  const slot = recordingSlot({ id, phase: 'AFTER' });
  const path = parseFunctionPath(functionPath);
  runtimeTargets().set(id, {
    functionPath,
    result: 'problem' in path ? undefined : path.result,
    slotFor: () => slot,
    patched() {},
    failed: (reason) => {
      state.problem = reason;
    },
  });
  const isModule = kind === 'esm' || (kind === 'ts' && /^(import|export)\b/m.test(text));
  const changed = rewrite(
    `/app/file.${suffixes[kind]}`,
    text,
    { goal: isModule ? 'module' : 'unknown', typed: kind === 'ts' },
    [{ id, functionPath }],
    {
      found(_, names) {
        state.names = names;
        return true;
      },
      problem: (_, reason) => {
        state.problem = reason;
      },
    },
  );
  return {
    text: changed,
    calls: slot.seen,
    get parameterNames() {
      return state.names;
    },
    get problem() {
      return state.problem;
    },
    run: () => runText(kind === 'ts' ? stripTypeScriptTypes(changed) : changed, isModule, imports),
  };
}

/** Only what happens to the text: the names, or the problem. */
export function find(
  text: string,
  functionPath: string,
  kind: TextKind = 'esm',
): { names: readonly string[] | undefined; problem: string | undefined } {
  const { parameterNames, problem } = captured(text, functionPath, kind);
  return { names: parameterNames, problem };
}

export function fixture(name: string): string {
  return readFileSync(new URL(`./fixtures/${name}`, import.meta.url), 'utf8');
}

async function runText(
  text: string,
  isModule: boolean,
  imports: ReadonlyMap<string, string>,
): Promise<Exports> {
  if (isModule) {
    let linked = text;
    for (const [specifier, source] of imports) linked = linked.replaceAll(specifier, dataUrl(source));
    return import(dataUrl(`${linked}\n//${++count}`));
  }
  const module = { exports: {} as Exports };
  const real = createRequire(import.meta.url);
  const load = (specifier: string) => {
    const source = imports.get(specifier);
    return source === undefined ? real(specifier) : compile(source, { exports: {} }, real);
  };
  return compile(text, module, load);
}

function compile(text: string, module: { exports: Exports }, load: (specifier: string) => unknown): Exports {
  const run = compileFunction(text.replace(/^#!.*/, ''), ['exports', 'require', 'module']);
  run.call(module.exports, module.exports, load, module);
  return module.exports;
}

function dataUrl(text: string): string {
  return `data:text/javascript,${encodeURIComponent(text)}`;
}
