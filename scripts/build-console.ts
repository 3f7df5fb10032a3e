import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import type { Rolldown } from 'tsdown';

const folder = resolve(import.meta.dirname, '../console');
const read = (file: string): string => readFileSync(file, 'utf8');

/** The page of the console and its style sheet, that of its charts included, beside the script. */
export const consoleFiles: Rolldown.Plugin = {
  name: 'page and style sheet of the console',
  generateBundle() {
    const charts = createRequire(import.meta.url).resolve('uplot/dist/uPlot.min.css');
    const emit = (fileName: string, source: string) => this.emitFile({ type: 'asset', fileName, source });
    emit('console/console.html', read(join(folder, 'console.html')));
    emit('console/console.css', `${read(charts).trim()}\n${read(join(folder, 'console.css'))}`);
  },
};
