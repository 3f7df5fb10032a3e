import { noteInserted } from './coverage.ts';
import { shiftSourceMap } from './shift-source-map.ts';
import { type Found, givenName } from './wrapper-place.ts';

/** A target's function in a text. `id` is what the inserted call says, and what the main thread knows the target by. */
export interface Insertion {
  readonly id: string;
  readonly found: Found;
}

/** The global that inserted calls look for: no import is added to anybody's module graph. */
const runtime = 'globalThis[Symbol.for("svc.capture")]';
const marker = /Symbol\.for\(\s*["'`]svc\.capture["'`]\s*\)/;

/** True when a text has been through here: two hooks may see one file, and transformers keep what was inserted. */
export function isMarked(text: string): boolean {
  return marker.test(text);
}

/**
 * Inserts the calls that put wrappers in place, and nothing else: no line moves, and where the capture is not there at run
 * time (a worker thread without the preload) the text means what it meant. `file`: where a source map beside it is looked for.
 */
export function insert(text: string, insertions: readonly Insertion[], file?: string): string {
  const edits: Edit[] = [];
  const named = new Set<number>();
  const opened = new Set<number>();
  insertions.forEach(({ id, found: { place, parameterNames } }, index) => {
    const what = `${JSON.stringify(id)},${parameterNames ? JSON.stringify(parameterNames) : 'null'}`;
    const isReturned = place.isReturned ? ',1' : '';
    // `;` first: what stands before may rely on an automatic semicolon.
    const assign = (name: string, more: string) =>
      `;${name}=${runtime}?.fn(${name},${what}${more})??${name};`;
    switch (place.form) {
      case 'binding':
        edits.push(point(place.at, index, assign(place.name, isReturned && `,void 0${isReturned}`)));
        break;
      case 'nameless':
        if (!named.has(place.nameAt)) edits.push(point(place.nameAt, index, ` ${givenName}`));
        named.add(place.nameAt);
        edits.push(point(place.at, index, assign(givenName, ',"default"')));
        break;
      case 'late': {
        const { at, name, path } = place;
        const call = `;${runtime}?.obj(${name},${what},${JSON.stringify(path)});`;
        edits.push(point(at, index, path.length === 0 ? assign(name, '') : call));
        break;
      }
      case 'method': {
        const owner = place.isStatic ? 'this' : 'this.prototype';
        edits.push(
          point(
            place.at,
            index,
            `;static{${runtime}?.put(${owner},${JSON.stringify(place.key)},${what}${isReturned})}`,
          ),
        );
        break;
      }
      case 'value': {
        const isPath = place.path.length > 0;
        const more = isPath
          ? `,${JSON.stringify(place.path)}`
          : place.name
            ? `,${JSON.stringify(place.name)}`
            : isReturned && ',void 0';
        const call = `((${runtime}?.${isPath ? 'obj' : 'fn'}??((v)=>v))(`;
        const { start, end } = place;
        edits.push({
          at: start,
          rank: opening,
          tie: [-end, -index],
          text: call,
          unnamed: isPath ? undefined : (place.name ?? assigned(text, start)),
        });
        edits.push({ at: end, rank: closing, tie: [-start, index], text: `,${what}${more}${isReturned}))` });
        if (place.open && !opened.has(end)) edits.push({ at: end, rank: semicolon, tie: [0, 0], text: ';' });
        opened.add(end);
        break;
      }
    }
  });
  return apply(text, edits, file);
}

/** What V8 calls a function that is assigned: `exports.create = function () {}`. */
function assigned(text: string, start: number): string | undefined {
  const [, name] = /([\w$]+(?:\.[\w$]+)*)\s*=\s*\(*$/.exec(text.slice(Math.max(0, start - 200), start)) ?? [];
  return name?.replaceAll('.prototype', '');
}

/** An ES module whose exports `globalThis[Symbol.for("svc.capture")]` gets when it has run. `url`: its own. */
export function handingOver(text: string, url: string, keys: readonly string[]): string {
  const calls = keys.map((key) => `${runtime}?.loaded?.(${JSON.stringify(key)},__svcModule);`);
  return `${text}\nimport * as __svcModule from ${JSON.stringify(url)};${calls.join('')}`;
}

/** At one place: what closes comes before what stands alone, and that before what opens. */
const closing = 0;
const semicolon = 1;
const statement = 2;
const opening = 3;

interface Edit {
  readonly at: number;
  readonly rank: number;
  /** Of one rank: a longer range opens first and closes last, and a later target goes around an earlier one. */
  readonly tie: readonly [number, number];
  readonly text: string;
  readonly unnamed?: string | undefined;
}

function point(at: number, index: number, text: string): Edit {
  return { at, rank: statement, tie: [0, index], text };
}

function apply(text: string, edits: Edit[], file: string | undefined): string {
  edits.sort((a, b) => a.at - b.at || a.rank - b.rank || a.tie[0] - b.tie[0] || a.tie[1] - b.tie[1]);
  let result = '';
  let done = 0;
  for (const edit of edits) {
    result += text.slice(done, edit.at) + edit.text;
    done = edit.at;
  }
  const plain = result + text.slice(done);
  const mapped = shiftSourceMap(text, edits, plain, file);
  // With a map, what V8 counts is found through that.
  if (mapped === plain) noteInserted(file, text, edits);
  return mapped;
}
