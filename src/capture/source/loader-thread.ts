import type { LoadFnOutput, LoadHookContext } from 'node:module';
import type { MessagePort } from 'node:worker_threads';
import { follower } from './exports/follow-export.ts';
import { packageFiles, type SoughtPackage } from './exports/package-files.ts';
import { rewriteMapped } from './maps/rewrite-mapped.ts';
import { type Sought, type SoughtFiles, seek } from './maps/sought.ts';
import { importParser } from './parse-text.ts';
import { rewriteLoaded } from './rewrite-loaded.ts';
import { type BuiltFile, rewrite, type SourceEvents, type SourceTarget } from './rewrite-text.ts';
import { targetFileLookup } from './target-files.ts';

/** What `module.register` carries to this thread. */
export interface LoaderData {
  readonly files: ReadonlyMap<string, readonly SourceTarget[]>;
  readonly sought: SoughtFiles;
  readonly packages: readonly SoughtPackage[];
  readonly port: MessagePort;
}

/** What comes back: the rest (parameter names too) stands in the inserted text. */
export interface LoaderMessage {
  /** `undefined`: the source map of `built` cannot be used; without a problem, what is listed of it. */
  readonly id?: string;
  /** `undefined`: found and inserted. */
  readonly problem: string | undefined;
  /** The file that it was found in by a source map. */
  readonly built?: BuiltFile | undefined;
}

let lookup: ReturnType<typeof targetFileLookup> | undefined;
let events: SourceEvents | undefined;
let soughtHere: Sought | undefined;

/** Called by Node once, in the thread of the asynchronous hooks. Only for Node versions without sound synchronous hooks. */
export async function initialize({ files, sought, packages, port }: LoaderData): Promise<void> {
  if (sought.listed.files.size === 0 || packages.length > 0) await importParser();
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
  soughtHere = seek(sought, events, rewriteMapped);
}

type NextLoad = (url: string, context?: Partial<LoadHookContext>) => LoadFnOutput | Promise<LoadFnOutput>;

export async function load(url: string, context: LoadHookContext, nextLoad: NextLoad): Promise<LoadFnOutput> {
  const result = await nextLoad(url, context);
  if (!lookup || !events || !soughtHere) return result;
  try {
    return rewriteLoaded(url, result, lookup, soughtHere, events, rewrite);
  } catch {
    // The application's module comes first.
    return result;
  }
}
