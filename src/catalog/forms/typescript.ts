import { printable } from '../../observe/printable.ts';
import type { Catalog } from '../catalog-file.ts';
import { isKnown, type Kind, namesOf, propertyNamed, type Shape } from '../shape/shape.ts';
import { protectionNotes } from './json-schema.ts';
import { namesFor, typeNameOf } from './type-names.ts';

const head = `// Made by \`npx --no svc catalog\` from what is published. Changes here are overwritten.

`;

const envelope = `export type EventType = keyof EventPayloads;

/** An event as its consumers read it, \`ConsumedEvent\` of \`svc/consumer\`. What was not known is \`null\`. */
export interface EventEnvelope<Type extends EventType = EventType> {
  readonly eventId: string;
  readonly eventType: Type;
  /** ISO 8601, UTC. */
  readonly occurredAt: string;
  readonly publishedAt: string;
  readonly severity: 'INFO' | 'WARN' | 'ERROR' | 'CRITICAL';
  readonly metadata: {
    readonly source: {
      readonly serviceName: string | null;
      readonly serviceVersion: string | null;
      readonly hostname: string | null;
    };
    readonly actor: { readonly userId: string | null; readonly sessionId: string | null };
    readonly trace: {
      readonly traceId: string | null;
      readonly spanId: string | null;
      readonly parentSpanId: string | null;
    };
    readonly correlationId: string | null;
    readonly clientIp: string | null;
    readonly tags: Readonly<Record<string, string>>;
  };
  readonly payload: EventPayloads[Type];
}

/** Any of them: \`eventType\` tells which payload it has. */
export type AnyEvent = { [Type in EventType]: EventEnvelope<Type> }[EventType];
`;

/** A file of types alone. */
export function typescriptText(catalog: Catalog): string {
  const names = namesFor(catalog.keys(), typeNameOf);
  const rows = [...catalog.keys()].map(
    (eventType) => `  readonly ${keyText(eventType)}: ${names.get(eventType)}Payload;\n`,
  );
  const payloads = [...catalog].map(([eventType, { payload }]) =>
    declaration(`${names.get(eventType)}Payload`, payload),
  );
  const map = `/** The payload of each event type. */\nexport interface EventPayloads {\n${rows.join('')}}\n\n`;
  return [`${head}${map}${envelope}`, ...payloads].join('\n');
}

function declaration(name: string, payload: Shape): string {
  // Every payload is an object.
  if (!isKnown(payload)) return `export interface ${name} ${objectText({}, 0)}\n`;
  if (payload.type?.length === 1 && payload.type[0] === 'object')
    return `export interface ${name} ${objectText(payload, 0)}\n`;
  return `export type ${name} = ${typeText(payload, 0)};\n`;
}

const plain: Partial<Record<Kind, string>> = {
  string: 'string',
  integer: 'number',
  number: 'number',
  boolean: 'boolean',
  null: 'null',
};

function typeText(shape: Shape, depth: number): string {
  if (shape.type === undefined) return 'unknown';
  const all = shape.type.map((kind) => {
    if (kind === 'object') return objectText(shape, depth);
    if (kind !== 'array') return plain[kind] as string;
    const { items = {} } = shape;
    const item = typeText(items, depth);
    const isOne = items.type === undefined || (items.type.length === 1 && items.type[0] !== 'array');
    return `readonly ${isOne ? item : `(${item})`}[]`;
  });
  return all.join(' | ');
}

function objectText(shape: Shape, depth: number): string {
  const indent = '  '.repeat(depth + 1);
  const { required = [], additionalProperties } = shape;
  const lines = namesOf(shape).map((name) => {
    const each = propertyNamed(shape, name) as Shape;
    const note = each.protection === undefined ? '' : `${indent}/** ${protectionNotes[each.protection]} */\n`;
    const mark = required.includes(name) ? '' : '?';
    return `${note}${indent}readonly ${keyText(name)}${mark}: ${typeText(each, depth + 1)};\n`;
  });
  if (additionalProperties !== undefined || lines.length === 0) {
    // It has to hold of the named ones, too.
    const others =
      additionalProperties === undefined || lines.length > 0
        ? 'unknown'
        : typeText(additionalProperties, depth + 1);
    lines.push(`${indent}readonly [name: string]: ${others};\n`);
  }
  return `{\n${lines.join('')}${'  '.repeat(depth)}}`;
}

/** Whatever a name holds, it stays a text. */
function keyText(name: string): string {
  if (/^[A-Za-z_$][\w$]*$/.test(name)) return name;
  return printable(JSON.stringify(name));
}
