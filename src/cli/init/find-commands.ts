import { dirname, relative, resolve } from 'node:path';
import { followImports } from '../../capture/follow-imports.ts';
import { ownFunctions } from '../../capture/source/find/own-functions.ts';
import { sourceOf, sourcesIn } from '../../capture/source/find/source-files.ts';
import { lineAt } from '../../capture/source/parse-text.ts';
import { isFile } from '../../ground/files/folders.ts';
import { distanceOf, eventTypeOfCommand } from './command-names.ts';
import { type Offer, offerOf } from './payload.ts';

/** A function that may become a target. */
export interface Candidate extends Offer {
  /** As a target names it: `./src/orders.ts`. */
  readonly module: string;
  readonly path: string;
  readonly line: number;
  readonly eventType: string;
  readonly distance: number;
}

const tests =
  /(?:^|\/)(?:tests?|__tests__|__mocks__|specs?|e2e|fixtures|examples|scripts|migrations|seeds?)\/|\.(?:test|spec|e2e|mock|stories|config)\./;

/** What may be offered, those nearest to the business first, and how many functions were read. */
export interface Search {
  readonly candidates: readonly Candidate[];
  readonly functionCount: number;
}

/**
 * The functions of an application that look like commands, by reading alone.
 *
 * @param entries of its start: where they are known, only files that it loads are read
 */
export function findCommands(folder: string, entries: readonly string[] | undefined): Search {
  const loaded = entries === undefined ? [] : [...followImports(entries, folder).files];
  const read = loaded.length > 0 ? loaded.map(writtenAs) : sourcesIn(folder);
  const files = [...new Set(read)].sort();
  const candidates: Candidate[] = [];
  let functionCount = 0;
  for (const file of files) {
    const shown = relative(folder, file).replaceAll('\\', '/');
    if (shown.startsWith('../') || tests.test(shown) || shown.includes('node_modules/')) continue;
    try {
      const text = sourceOf(file);
      const { program, functions } =
        text === undefined ? { program: undefined, functions: [] } : ownFunctions(file, text);
      functionCount += functions.length;
      if (program === undefined || text === undefined) continue;
      for (const { path, node } of functions) {
        const eventType = eventTypeOfCommand(path, shown);
        if (eventType === undefined) continue;
        candidates.push({
          ...{ module: `./${shown}`, path, eventType, line: lineAt(text, node.start) },
          ...{
            distance: distanceOf(path, shown),
            ...offerOf(node, program, eventType.replace(/_[^_]+$/, '')),
          },
        });
      }
    } catch {
      // It may be gone meanwhile, or not be readable: it offers nothing.
    }
  }
  // Stable: as they stand in the files.
  return { candidates: candidates.sort((a, b) => a.distance - b.distance), functionCount };
}

/**
 * The source of a built file by its source map, by which a start finds its functions as well: in what was built types are gone, and with them
 * what is known of fields. The file itself where there is no map, or it was made of several.
 */
function writtenAs(file: string): string {
  try {
    const map = JSON.parse(sourceOf(`${file}.map`) ?? '') as { sourceRoot?: unknown; sources?: unknown };
    const [source, ...more] = Array.isArray(map.sources) ? (map.sources as unknown[]) : [];
    if (typeof source !== 'string' || more.length > 0) return file;
    const root = typeof map.sourceRoot === 'string' ? map.sourceRoot : '';
    const path = resolve(dirname(file), root, source);
    return isFile(path) ? path : file;
  } catch {
    return file;
  }
}

/** One for each event type: a service and its repository would else both publish an order. */
export function oneOfEach(candidates: readonly Candidate[]): readonly Candidate[] {
  return [...new Map([...candidates].reverse().map((each) => [each.eventType, each])).values()].reverse();
}
