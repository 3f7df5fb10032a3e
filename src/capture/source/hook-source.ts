// source/: functions of own files: svc inserts a call into the text while Node loads it.

import { existsSync } from 'node:fs';
import Module from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { clock } from '../../ground/clock.ts';
import { loadChunk } from '../../ground/lifecycle.ts';
import type * as FollowExport from './follow-export.ts';
import type { Follower } from './follow-export.ts';
import { passingExports } from './insert-calls.ts';
import { watchEntry } from './late-start.ts';
import type { LoaderData, LoaderMessage } from './loader-thread.ts';
import { hasSoundSyncHooks, isRequiredPreload } from './node-hooks.ts';
import { loadParser } from './parse-text.ts';
import { type PendingFiles, type PendingTargets, rewriteLoaded, trackPending } from './rewrite-loaded.ts';
import type * as RewriteText from './rewrite-text.ts';
import {
  type PackageFile,
  type PendingPackage,
  packageFiles,
  stemOf,
  type TargetFiles,
  targetFileLookup,
  untold,
} from './target-files.ts';
import { messageOf } from './wrapper-place.ts';

interface SourceHookEvents extends RewriteText.SourceEvents {
  /** Inserted by the loader thread, which does not have the plan: the inserted call passes the parameter names. */
  inserted(id: string, built?: RewriteText.BuiltFile): void;
}

export interface PackageWork {
  readonly pending: readonly PendingPackage[];
  /** Called after a CommonJS file has run. `inserted`: the targets in its text. Never throws. */
  ran(module: { exports: unknown }, file: PackageFile, inserted: ReadonlySet<string>): void;
}

interface SourceHooks {
  /** Reads the messages of the loader thread. Does nothing with synchronous hooks. */
  takeIn(): void;
  tooLate(): string | undefined;
  /** Loaded files with the base name of a target's file. */
  readonly namesakes: ReadonlySet<string>;
  firstOwnMs(): number | undefined;
  close(): void;
}

type Hook = Pick<SourceHooks, 'takeIn' | 'close'>;
type WatchLoad = (module: string) => void;

/** Changes the text of the target files, and of builds of those that are not loaded, while Node loads it. */
export function hookSource(
  files: TargetFiles,
  pendingFiles: PendingFiles,
  packages: PackageWork,
  events: SourceHookEvents,
): SourceHooks {
  const entry = watchEntry(hasSoundSyncHooks());
  const stems = new Set([...files.keys()].map(stemOf));
  const namesakes = new Set<string>();
  // The loader thread does not report each module: the application's first one follows at once.
  let firstOwnMs = hasSoundSyncHooks() ? undefined : clock.monotonic();
  const see: WatchLoad = (module) => {
    entry.see(module);
    const plain = module.startsWith('file:') ? module.replace(/[?#].*$/s, '') : module;
    if (stems.has(stemOf(plain))) namesakes.add(plain.startsWith('file:') ? fileURLToPath(plain) : plain);
    if (firstOwnMs === undefined && isOwn(module)) firstOwnMs = clock.monotonic();
  };
  const pending = trackPending(pendingFiles, events);
  const ofPackages = packageFiles(packages.pending, followerLater(), events);
  const parts = [
    hookCompile(targetFileLookup(files, ofPackages), packages, pending, events, see),
    hookModules(
      { files, pending: pendingFiles, packages: packages.pending },
      ofPackages,
      pending,
      events,
      see,
    ),
  ];
  return {
    takeIn() {
      for (const part of parts) part.takeIn();
    },
    tooLate: entry.reason,
    namesakes,
    firstOwnMs: () => firstOwnMs,
    close() {
      for (const part of parts) part.close();
    },
  };
}

const isOwn = (module: string): boolean =>
  !module.startsWith('node:') && !/[\\/]node_modules[\\/]/.test(module);

/** Loaded with the first target file, so that other processes do not pay for it. */
const rewrite: typeof RewriteText.rewrite = (file, text, kind, targets, events) => {
  try {
    const later = loadChunk(import.meta.url, './rewrite-text.ts') as typeof RewriteText;
    return later.rewrite(file, text, kind, targets, events);
  } catch (error) {
    // On failure, load the module unchanged.
    const reason = messageOf(error);
    for (const { id } of targets) events.problem(id, `svc could not load one of its own files: ${reason}`);
    return text;
  }
};

type Compile = (this: unknown, content: unknown, filename: unknown, ...rest: unknown[]) => unknown;

/** Every require hook (tsx, ts-node, swc, Babel) ends in `_compile`. */
function hookCompile(
  lookup: Lookup,
  packages: PackageWork,
  pending: PendingTargets,
  events: RewriteText.SourceEvents,
  see: WatchLoad,
): Hook {
  const prototype = Module.prototype as unknown as { _compile: Compile };
  const original = prototype._compile;
  let isOpen = true;
  const compile: Compile = function _compile(content, filename, ...rest) {
    if (!isOpen || typeof content !== 'string' || typeof filename !== 'string')
      return Reflect.apply(original, this, [content, filename, ...rest]);
    see(filename);
    const kind = { goal: rest[0] === 'module' ? 'module' : 'unknown', typed: false } as const;
    const file = lookup.byPath(filename);
    if (file) pending.isLoaded(file.path);
    const path = file?.path ?? filename;
    const ofPackage = file?.ofPackage;
    const [told, inserted] = ofPackage && kind.goal === 'unknown' ? untold(file.targets, events) : [events];
    const text =
      pending.fromList(path, content) ??
      pending.rewrite(path, content, kind, file?.targets) ??
      (file && file.targets.length > 0 ? rewrite(path, content, kind, file.targets, told) : content);
    if (kind.goal === 'module' && ofPackage && ofPackage.patches.length > 0 && !text.includes('__svcModule'))
      return Reflect.apply(original, this, [
        passingExports(text, pathToFileURL(filename).href, ofPackage.patches),
        filename,
        ...rest,
      ]);
    const result = Reflect.apply(original, this, [text, filename, ...rest]);
    if (ofPackage && inserted) packages.ran(this as { exports: unknown }, ofPackage, inserted);
    return result;
  };
  prototype._compile = compile;
  return {
    takeIn() {},
    close() {
      isOpen = false;
      // If another tool wrapped it again, the function stays and only passes through.
      if (prototype._compile === compile) prototype._compile = original;
    },
  };
}

const nothing: Hook = { takeIn() {}, close() {} };

type Lookup = ReturnType<typeof targetFileLookup>;
type Files = Pick<LoaderData, 'files' | 'pending' | 'packages'>;

/** Loaded with the first file of a target's package, because it loads the parser. */
function followerLater(): () => Follower {
  let made: Follower | undefined;
  return () => {
    made ??= (loadChunk(import.meta.url, './follow-export.ts') as typeof FollowExport).follower();
    return made;
  };
}

function hookModules(
  files: Files,
  ofPackages: ReturnType<typeof packageFiles>,
  pending: PendingTargets,
  events: SourceHookEvents,
  see: WatchLoad,
): Hook {
  if (hasSoundSyncHooks())
    return hookModulesHere(
      targetFileLookup(files.files, ofPackages),
      new Set(files.packages.map(({ specifier }) => specifier)),
      pending,
      events,
      see,
    );
  return isRequiredPreload() ? nothing : hookModulesInThread(files, events);
}

function hookModulesHere(
  lookup: Lookup,
  specifiers: ReadonlySet<string>,
  pending: PendingTargets,
  events: RewriteText.SourceEvents,
  see: WatchLoad,
): Hook {
  const hooks = Module.registerHooks({
    load(url, context, nextLoad) {
      see(url);
      // The `require` hook sees it there, and changes what `import` is about to return.
      if (url.startsWith('node:') && specifiers.has(url)) process.getBuiltinModule(url);
      const result = nextLoad(url, context);
      try {
        return rewriteLoaded(url, result, lookup, pending, events, rewrite);
      } catch {
        // On failure, load the module unchanged.
        return result;
      }
    },
  });
  return { takeIn() {}, close: () => hooks.deregister() };
}

function hookModulesInThread(files: Files, events: SourceHookEvents): Hook {
  // Before the hooks: later, each module of the parser would pass through the loader thread.
  if (files.pending.listed.files.size === 0 || files.packages.length > 0) loadParser();
  // Loaded here only: it takes 2 ms, which synchronous hooks do not need.
  const { MessageChannel, receiveMessageOnPort } = process.getBuiltinModule('node:worker_threads');
  const { port1, port2 } = new MessageChannel();
  const data: LoaderData = { ...files, port: port2 };
  Module.register(loaderUrl(), { data, transferList: [port2] });
  const take = ({ id, problem, built }: LoaderMessage) => {
    if (id === undefined && problem === undefined) events.unlisted?.(built?.file ?? '');
    else if (id === undefined) events.unreadMap?.(built?.file ?? '', problem ?? '');
    else if (problem === undefined) events.inserted(id, built);
    else events.problem(id, problem, built);
  };
  port1.on('message', take);
  port1.unref();
  return {
    takeIn() {
      for (let each = receiveMessageOnPort(port1); each; each = receiveMessageOnPort(port1))
        take(each.message);
    },
    close: () => port1.close(),
  };
}

/** The loader is a separate file: beside this one in the sources, at the top of the built package. */
function loaderUrl(): URL {
  const built = new URL('./loader.mjs', import.meta.url);
  return existsSync(fileURLToPath(built)) ? built : new URL('./loader-thread.ts', import.meta.url);
}
