import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Manifest } from '../../ground/files/manifest.ts';
import { entryAt } from '../check/check-start.ts';

/** A script for package.json that starts the application with svc. */
export interface ScriptEntry {
  readonly name: string;
  readonly command: string;
}

/** Under a name of its own, so that the start of the application stays what it is. */
export const scriptName = 'start:svc';
const preload = '--import svc/register';

/** `undefined` where it is there already, or where what starts the application is not known. */
export function scriptEntryOf({ scripts, folder, main }: Manifest): ScriptEntry | undefined {
  if ([...scripts.values()].some((command) => command.includes('svc/register'))) return undefined;
  const start = scripts.get('start');
  if (start !== undefined) {
    const command = start.replace(/^((?:\w+=\S+\s+)*(?:node|tsx))(?=\s)/, `$1 ${preload}`);
    return command === start || /[;&|]/.test(start) ? undefined : { name: scriptName, command };
  }
  const file = [
    main,
    'src/server.ts',
    'src/index.ts',
    'server.js',
    'app.js',
    'index.js',
    'src/server.js',
    'src/index.js',
  ]
    .filter((each) => each !== undefined)
    .find((each) => entryAt(join(folder, each)) !== undefined);
  return file === undefined ? undefined : { name: scriptName, command: `node ${preload} ${file}` };
}

/** The text of package.json with the entry, indented as it was: as npm itself would write it. */
export function withScript(folder: string, { name, command }: ScriptEntry): string {
  const text = readFileSync(join(folder, 'package.json'), 'utf8');
  const mark = text.startsWith('\uFEFF') ? '\uFEFF' : '';
  const manifest = JSON.parse(text.slice(mark.length)) as { scripts?: Record<string, string> };
  const [, indent = '  '] = /^\s*\{\r?\n([ \t]+)/.exec(text.slice(mark.length)) ?? [];
  const all = { ...manifest, scripts: { ...manifest.scripts, [name]: command } };
  const [end = ''] = /\s*$/.exec(text) ?? [];
  const written = JSON.stringify(all, null, indent);
  return `${mark}${text.includes('\r\n') ? written.replaceAll('\n', '\r\n') : written}${end}`;
}

/** Where the schema lies, as editors take it from beside the file. */
export function schemaPath(folder: string): string {
  const file = 'node_modules/svc/svc.config.schema.json';
  for (let up = '.', depth = 0; depth < 8; up = up === '.' ? '..' : `${up}/..`, depth++)
    if (existsSync(join(folder, up, file))) return `${up}/${file}`;
  return `./${file}`;
}
