import { isBuiltin, type LoadFnOutput, type LoadHookContext } from 'node:module';
import type { MessagePort } from 'node:worker_threads';
import { follower } from './follow-export.ts';
import { importParser } from './parse-text.ts';
import { type PendingFiles, type PendingTargets, rewriteLoaded, trackPending } from './rewrite-loaded.ts';
import { rewriteMapped } from './rewrite-mapped.ts';
import { type BuiltFile, rewrite, type SourceEvents, type SourceTarget } from './rewrite-text.ts';
import { type PendingPackage, packageFiles, targetFileLookup } from './target-files.ts';

export interface LoaderData {
  readonly files: ReadonlyMap<string, readonly SourceTarget[]>;
  readonly pending: PendingFiles;
  readonly packages: readonly PendingPackage[];
  readonly port: MessagePort;
}

export interface LoaderMessage {
  /** `undefined`: the source map of `built` is unusable; without a problem, its list entry is outdated. */
  readonly id?: string;
  /** `undefined`: found and inserted. */
  readonly problem: string | undefined;
  readonly built?: BuiltFile | undefined;
}

let lookup: ReturnType<typeof targetFileLookup> | undefined;
let events: SourceEvents | undefined;
let pendingHere: PendingTargets | undefined;
let builtins: ReadonlySet<string> = new Set();

/** Called by Node once, in the thread of the asynchronous hooks. Only for Node versions without sound synchronous hooks. */
export async function initialize({ files, pending, packages, port }: LoaderData): Promise<void> {
  if (pending.listed.files.size === 0 || packages.length > 0) await importParser();
  const send = (message: LoaderMessage) => port.postMessage(message);
  port.unref();
  events = {
    found(id, _, __, built) {
      send({ id, problem: undefined, ...(built !== undefined && { built }) });
      return true;
    },
    problem: (id, problem, built) => send({ id, problem, ...(built !== undefined && { built }) }),
    unreadMap: (file, problem) => send({ problem, built: { file } }),
    unlisted: (file) => send({ problem: undefined, built: { file } }),
  };
  lookup = targetFileLookup(files, packageFiles(packages, follower, events));
  pendingHere = trackPending(pending, events, rewriteMapped);
  builtins = new Set(
    packages
      .filter(({ specifier, patch }) => patch !== undefined && isBuiltin(specifier))
      .map(({ specifier }) => specifier),
  );
}

type NextLoad = (url: string, context?: Partial<LoadHookContext>) => LoadFnOutput | Promise<LoadFnOutput>;

export async function load(url: string, context: LoadHookContext, nextLoad: NextLoad): Promise<LoadFnOutput> {
  const result = await nextLoad(url, context);
  if (builtins.has(url)) return standIn(url, result);
  if (!lookup || !events || !pendingHere) return result;
  try {
    return rewriteLoaded(url, result, lookup, pendingHere, events, rewrite);
  } catch {
    // On failure, load the module unchanged.
    return result;
  }
}

/** Replaces the `import` of a patched Node module, which no main-thread hook sees, by a `require`, which svc hooks. */
function standIn(url: string, result: LoadFnOutput): LoadFnOutput {
  const { emitWarning } = process;
  try {
    // Node emits its warnings about the module in the application's thread.
    process.emitWarning = () => {};
    const names = Object.keys(process.getBuiltinModule(url) ?? {});
    const bindings = names.map((name, index) => `const e${index}=m[${JSON.stringify(name)}];`).join('');
    const exported = names.map((name, index) => `e${index} as ${JSON.stringify(name)}`).join(',');
    const source = `const m=process.getBuiltinModule(${JSON.stringify(url)});${bindings}export{m as default,${exported}};`;
    return { format: 'module', source, shortCircuit: true };
  } catch {
    return result;
  } finally {
    process.emitWarning = emitWarning;
  }
}
