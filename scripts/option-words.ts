import { readdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';

const folder = resolve(import.meta.dirname, '../src/config/schema');

/** What the comment of a row says, by the name of the option or of the field of a target. */
const words: ReadonlyMap<string, string> = new Map(
  readdirSync(folder).flatMap((file) =>
    [
      ...readFileSync(resolve(folder, file), 'utf8').matchAll(/^ {2}\/\*\* (.+) \*\/\n {2}'?([\w.-]+)'?: /gm),
    ].map(([, says = '', name = '']) => [name, says]),
  ),
);

/** The text of an option: the comment of its row in src/config/schema. */
export function wordsOf({ name }: { readonly name: string }): string {
  const says = words.get(name);
  if (says === undefined) throw new Error(`${name} has no comment on one line above it in src/config/schema`);
  return says;
}
