import { loadAvsc } from '../serialize/avro/exact-types.ts';
import {
  type Catalog,
  type CatalogEvent,
  isKnown,
  type Kind,
  namesOf,
  propertyNamed,
  type Shape,
} from './shape.ts';

/** One difference between two catalogs. */
export interface Change {
  readonly eventType: string;
  /** `payload.customer.email`; `''`: the event type itself. */
  readonly path: string;
  readonly says: string;
  /** Whether a consumer that was right before may be wrong now. */
  readonly breaks: boolean;
}

type Note = (path: string, says: string, breaks?: boolean) => void;

/** What has changed for consumers, type by type. */
export function changesBetween(before: Catalog, after: Catalog): Change[] {
  const found: Change[] = [];
  for (const eventType of [...new Set([...before.keys(), ...after.keys()])].sort()) {
    const [old, now] = [before.get(eventType), after.get(eventType)];
    const note: Note = (path, says, breaks = false) => found.push({ eventType, path, says, breaks });
    if (now === undefined) note('', 'is not published any more', true);
    else if (old === undefined) note('', 'is new');
    else compareEvents(old, now, note);
  }
  return found;
}

function compareEvents(old: CatalogEvent, now: CatalogEvent, note: Note): void {
  const gone = old.topics.filter((topic) => !now.topics.includes(topic));
  const more = now.topics.filter((topic) => !old.topics.includes(topic));
  if (gone.length > 0)
    note(
      'topic',
      `${gone.join(', ')} has it no more${more.length > 0 ? `: it is in ${more.join(', ')}` : ''}`,
      true,
    );
  else if (more.length > 0) note('topic', `is in ${more.join(', ')} as well`);
  if (old.contentType !== now.contentType)
    note('content-type', `was ${old.contentType}, is ${now.contentType}`, true);
  if (old.keys.join('\n') !== now.keys.join('\n'))
    note('key', `is made from ${keysOf(now)}, was from ${keysOf(old)}: order is kept by key`);
  compare(old.payload, now.payload, 'payload', note);
  if (old.avro !== undefined && now.avro !== undefined && now.contentType === 'application/avro')
    compareAvro(old.avro, now.avro, note);
}

const keysOf = ({ keys }: CatalogEvent): string => (keys.length === 0 ? 'the event id' : keys.join(' or '));

function compare(old: Shape, now: Shape, path: string, note: Note): void {
  if (now.protection !== undefined && now.protection !== old.protection && isKnown(old))
    note(path, `is ${now.protection} now`, true);
  else if (old.protection !== undefined && now.protection === undefined)
    note(path, `is not ${old.protection} any more`);
  if (!isKnown(old)) {
    if (isKnown(now)) note(path, `is known now: ${now.type?.join(' or ')}`);
    return;
  }
  if (!isKnown(now)) {
    note(path, `was ${old.type?.join(' or ')}, and is not known any more`, true);
    return;
  }
  compareTypes(old.type as Kind[], now.type as Kind[], path, note);
  if (old.type?.includes('object') && now.type?.includes('object')) compareObjects(old, now, path, note);
  if (old.items !== undefined) compare(old.items, now.items ?? {}, `${path}[*]`, note);
  else if (now.items !== undefined) note(`${path}[*]`, 'is known now');
}

function compareTypes(old: readonly Kind[], now: readonly Kind[], path: string, note: Note): void {
  const gained = now.filter((kind) => !old.includes(kind) && !(kind === 'integer' && old.includes('number')));
  const lost = old.filter((kind) => !now.includes(kind) && !(kind === 'integer' && now.includes('number')));
  if (gained.length === 1 && gained[0] === 'null') note(path, 'can be null now', true);
  else if (gained.length > 0) note(path, `was ${old.join(' or ')}, is ${now.join(' or ')}`, true);
  else if (lost.length > 0) note(path, `is ${now.join(' or ')} only, was ${old.join(' or ')}`);
}

function compareObjects(old: Shape, now: Shape, path: string, note: Note): void {
  for (const name of namesOf(old)) {
    const below = `${path}${stepOf(name)}`;
    const [before, after] = [propertyNamed(old, name), propertyNamed(now, name)];
    if (after === undefined) {
      note(below, 'is removed', true);
      continue;
    }
    const [was, is] = [old.required?.includes(name), now.required?.includes(name)];
    if (was && !is) note(below, 'can be missing now', true);
    if (!was && is && old.required !== undefined) note(below, 'is always there now');
    compare(before as Shape, after, below, note);
  }
  for (const name of namesOf(now)) {
    if (propertyNamed(old, name) !== undefined) continue;
    const isDemanded = now.required?.includes(name) && old.required !== undefined;
    if (isDemanded)
      note(`${path}${stepOf(name)}`, 'is new and required: events from before do not have it', true);
    else note(`${path}${stepOf(name)}`, 'is new');
  }
  const others = `${path}.*`;
  if (old.additionalProperties !== undefined)
    compare(old.additionalProperties, now.additionalProperties ?? {}, others, note);
  else if (now.additionalProperties !== undefined) note(others, 'is known now');
}

function stepOf(name: string): string {
  return /^[A-Za-z_$][\w$-]*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
}

/** As a schema registry looks at them, both ways. */
function compareAvro(old: unknown, now: unknown, note: Note): void {
  if (JSON.stringify(old) === JSON.stringify(now)) return;
  const { Type } = loadAvsc();
  const typeOf = (schema: unknown) => Type.forSchema(schema as Parameters<typeof Type.forSchema>[0]);
  const reads = (reader: unknown, writer: unknown): boolean => {
    try {
      typeOf(reader).createResolver(typeOf(writer));
      return true;
    } catch {
      return false;
    }
  };
  if (!reads(old, now)) note('avro', 'readers with the schema of before cannot read it', true);
  if (!reads(now, old)) note('avro', 'readers with this schema cannot read events of before', true);
}
