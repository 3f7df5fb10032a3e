import { fileURLToPath } from 'node:url';
import { handingOver } from './insert-calls.ts';
import { parse } from './parse-text.ts';
import type { PendingTargets } from './pending-targets.ts';
import type { rewrite as Rewrite, SourceEvents } from './rewrite-text.ts';
import type { targetFileLookup } from './target-files.ts';
import { isProblem } from './wrapper-place.ts';

/** The result of a `load` hook of Node, as far as used here. */
interface LoadResult {
  format?: string | null | undefined;
  source?: unknown;
}

/**
 * Inserts the targets' calls into a load hook's result. ES modules only: a source for CommonJS would switch Node to
 * another loader, and CommonJS passes through `_compile` anyway.
 */
export function rewriteLoaded<T extends LoadResult>(
  url: string,
  result: T,
  lookup: ReturnType<typeof targetFileLookup>,
  pending: PendingTargets,
  events: SourceEvents,
  rewrite: typeof Rewrite,
): T {
  const isTyped = result.format === 'module-typescript';
  if (result.format !== 'module' && !isTyped) return result;
  const file = lookup.byUrl(url);
  if (file) pending.isLoaded(file.path);
  const path = file?.path ?? (isTyped ? undefined : builtFile(url));
  if (path === undefined || result.source === null || result.source === undefined) return result;
  const before = textOf(result.source);
  if (importsItself(path, before, url)) return result;
  const kind = { goal: 'module', typed: isTyped } as const;
  const after =
    pending.fromList(path, before) ??
    pending.rewrite(path, before, kind, file?.targets) ??
    (file && file.targets.length > 0 ? rewrite(path, before, kind, file.targets, events) : before);
  const { patches = [] } = file?.ofPackage ?? {};
  const whole = patches.length === 0 ? after : handingOver(after, url, patches);
  return whole === before ? result : { ...result, source: whole };
}

/**
 * Whether the text is a generated proxy that imports the module under its own URL, as import-in-the-middle writes. A
 * URL in a comment (`sourceURL`, `sourceMappingURL`) or a string does not count.
 */
function importsItself(file: string, text: string, url: string): boolean {
  const plain = url.replace(/[?#].*$/s, '');
  // Parsed only if the URL occurs in quotes.
  if (!text.includes(`"${plain}`) && !text.includes(`'${plain}`)) return false;
  const parsed = parse(file, text, { goal: 'module', typed: false });
  if (isProblem(parsed)) return false;
  return parsed.program.body.some((statement) => {
    const source = 'source' in statement ? statement.source : null;
    return source !== null && typeof source === 'object' && source.value.replace(/[?#].*$/s, '') === plain;
  });
}

/** A file that may be built from a target's file; not one of a dependency. */
function builtFile(url: string): string | undefined {
  const plain = url.replace(/[?#].*$/s, '');
  return /^file:.*\.[cm]?js$/.test(plain) && !plain.includes('/node_modules/')
    ? fileURLToPath(plain)
    : undefined;
}

function textOf(source: unknown): string {
  return typeof source === 'string'
    ? source
    : new TextDecoder('utf-8', { ignoreBOM: true }).decode(source as Uint8Array);
}
