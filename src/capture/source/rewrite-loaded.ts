import type { rewrite as Rewrite, SourceEvents } from './rewrite-text.ts';
import type { targetFileLookup } from './target-files.ts';

/** What a `load` hook of Node returns, as far as it matters here. */
interface LoadResult {
  format?: string | null | undefined;
  source?: unknown;
}

/**
 * A load hook's result with the calls of the targets inserted. Only ES modules: to hand Node a source for CommonJS would
 * switch it to another loader, and CommonJS passes through `_compile` anyway.
 */
export function rewriteLoaded<T extends LoadResult>(
  url: string,
  result: T,
  lookup: ReturnType<typeof targetFileLookup>,
  events: SourceEvents,
  rewrite: typeof Rewrite,
): T {
  const isTyped = result.format === 'module-typescript';
  if (result.format !== 'module' && !isTyped) return result;
  const file = lookup.byUrl(url);
  if (!file || result.source === null || result.source === undefined) return result;
  const before = textOf(result.source);
  // A text that names its own address was generated, to stand in front of the module: import-in-the-middle's proxies do.
  if (before.includes(url.replace(/[?#].*$/s, ''))) return result;
  const after = rewrite(file.path, before, { goal: 'module', typed: isTyped }, file.targets, events);
  return after === before ? result : { ...result, source: after };
}

function textOf(source: unknown): string {
  return typeof source === 'string'
    ? source
    : new TextDecoder('utf-8', { ignoreBOM: true }).decode(source as Uint8Array);
}
