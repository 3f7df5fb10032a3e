import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, extname, join, relative } from 'node:path';
import { nearest } from './nearest.ts';
import type { Problem } from './place.ts';

const extensions = ['.ts', '.js', '.mts', '.mjs', '.cts', '.cjs', '.tsx', '.jsx'];

/** The real path of a file, or what may have been meant. Paths in messages are relative to `baseDir`. */
export function ownFile(path: string, baseDir: string): string | Problem {
  if (isFile(path)) return realpathSync(path);
  const shown = shownPath(path, baseDir);
  const others = variants(path).filter(isFile);
  if (others.length > 0) {
    const names = others.slice(0, 3).map((each) => shownPath(each, baseDir));
    return { problem: `no such file: ${shown} (did you mean ${names.join(', ')}?)` };
  }
  const folder = dirname(path);
  if (!existsSync(folder))
    return { problem: `no such file: ${shown} (there is no folder ${shownPath(folder, baseDir)})` };
  const near = nearFiles(path, folder).map((name) => shownPath(join(folder, name), baseDir));
  return { problem: `no such file: ${shown}${near.length > 0 ? ` (did you mean ${near.join(', ')}?)` : ''}` };
}

/** Files of the folder whose names are like the wanted one; extensions are alike anyway. */
function nearFiles(path: string, folder: string): string[] {
  const stemOf = (name: string) => basename(name, extname(name));
  const names = readdirSync(folder).filter((name) => extensions.includes(extname(name)));
  const stems = nearest(stemOf(path), names.map(stemOf));
  return stems.flatMap((stem) => names.filter((name) => stemOf(name) === stem)).slice(0, 3);
}

/** `./src/orders.js` for what is `./src/orders.ts`, `./src/orders` for `./src/orders.ts` or `./src/orders/index.ts`. */
function variants(path: string): string[] {
  const stem = extensions.includes(extname(path)) ? path.slice(0, -extname(path).length) : path;
  return [stem, join(stem, 'index')].flatMap((each) => extensions.map((extension) => each + extension));
}

function shownPath(path: string, baseDir: string): string {
  const short = relative(baseDir, path).replaceAll('\\', '/');
  return short.startsWith('.') ? short : `./${short}`;
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}
