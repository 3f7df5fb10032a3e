import { type Catalog, CatalogError, catalogText } from '../../catalog/catalog-file.ts';
import { filesOf, writeFolder } from '../../catalog/catalog-folder.ts';
import { type Change, changesBetween } from '../../catalog/changes.ts';
import { declaredTypes } from '../../catalog/declared/declared-events.ts';
import { sourceWords } from '../../catalog/declared/source-words.ts';
import type { Application, Learner } from '../../catalog/learner.ts';
import type { Config } from '../../config/config.ts';
import { configOf, lineOf, type Places } from './places.ts';

/** Writes what is learned, each second at most: whatever ends the process, little is lost. */
export interface Saving {
  /** There may be news. */
  due(): void;
  /** @throws CatalogError */
  now(): Saved;
  end(): void;
}

interface Saved {
  readonly catalog: Catalog;
  /** Since the beginning. */
  readonly changes: readonly Change[];
  /** Places whose event type, or topic, is known at run time only. */
  readonly unknown: readonly string[];
}

const saveEveryMs = 1_000;
/** Reading the application anew takes no more of the time than one part in so many. */
const readingShare = 10;

export function readApplication(config: Config, folder: string): Application {
  const words = sourceWords(config.baseDir, (path) => path.startsWith(folder));
  return { config, declared: declaredTypes(config), isWord: (name) => words.has(name) };
}

export function createSaving(
  { config: file, json }: { readonly config?: string; readonly json?: true },
  { config, folder, before = new Map() }: Places,
  learner: Learner,
): Saving {
  let saved = before;
  let savedText = '';
  let isDue = false;
  let unknown: readonly string[] = [];
  let readAgainAtMs = 0;

  /** Whoever develops changes what is published meanwhile. */
  function readAgain(): void {
    const begunMs = performance.now();
    const application = readApplication(configOf(file), folder);
    learner.use(application);
    unknown = application.declared.unknown;
    readAgainAtMs = performance.now() + (performance.now() - begunMs) * readingShare;
  }

  function save(): Catalog {
    const catalog = learner.catalog();
    const text = catalogText(catalog);
    if (text === savedText) return catalog;
    writeFolder(folder, filesOf(catalog, config.baseDir), saved);
    if (!json) process.stdout.write(changesBetween(saved, catalog).map(lineOf).join(''));
    [saved, savedText] = [catalog, text];
    return catalog;
  }

  const timer = setInterval(() => {
    if (!isDue) return;
    isDue = false;
    try {
      if (performance.now() >= readAgainAtMs) readAgain();
      save();
    } catch (error) {
      // A file that is being written: at the end it is tried again, and said.
      if (!(error instanceof CatalogError)) throw error;
      isDue = true;
    }
  }, saveEveryMs);
  return {
    due() {
      isDue = true;
    },
    now() {
      try {
        readAgain();
      } finally {
        save();
      }
      return { catalog: saved, changes: changesBetween(before, saved), unknown };
    },
    end: () => clearInterval(timer),
  };
}
