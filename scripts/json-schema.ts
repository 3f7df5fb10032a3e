import { camelCase, formats, kebabCase, type Option, options } from '../src/config/schema/schema.ts';
import { type TargetField, targetFields } from '../src/config/schema/target.ts';
import { keyIdPattern, maxHeaders } from '../src/ground/event-fields.ts';
import { ownName } from '../src/ground/own-parts.ts';
import { piiLevels, piiStrategies, piiTypes } from '../src/ground/pii-rule.ts';
import { wordsOf } from './option-words.ts';

/** A part of a JSON Schema, draft 7. */
export interface JsonSchema {
  [keyword: string]: unknown;
}

/**
 * JSON Schema of the configuration file, so that editors complete and check it. Every option and every section is a
 * definition of its own, so that both spellings can point to it.
 */
export function buildJsonSchema(): JsonSchema {
  const definitions: Record<string, JsonSchema> = {};
  const root = section();
  const description = 'The functions whose calls become events.';
  define(root, definitions, 'svc.targets', { description, type: ['array', 'null'], items: targetSchema() });
  for (const option of options) define(root, definitions, option.name, optionSchema(option));
  properties(root).$schema = { type: 'string' };
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Configuration of svc',
    ...root,
    definitions,
  };
}

function section(): JsonSchema {
  // Keys may be dotted as well (`broker.topic: orders`); those are left to the check at start.
  return {
    type: ['object', 'null'],
    additionalProperties: false,
    properties: {},
    patternProperties: { '[.]': {} },
  };
}

function properties(schema: JsonSchema): Record<string, JsonSchema> {
  return schema.properties as Record<string, JsonSchema>;
}

/** Nested under its sections, and as one dotted key at the top. */
function define(
  root: JsonSchema,
  definitions: Record<string, JsonSchema>,
  name: string,
  schema: JsonSchema,
): void {
  definitions[name] = schema;
  const parts = name.split('.');
  let holder = root;
  for (const [index, part] of parts.entries()) {
    const path = parts.slice(0, index + 1).join('.');
    definitions[path] ??= section();
    refer(holder, part, path);
    holder = definitions[path];
  }
  refer(root, name, name);
}

function refer(holder: JsonSchema, name: string, path: string): void {
  properties(holder)[name] = { $ref: `#/definitions/${path}` };
  properties(holder)[camelCase(name)] = { $ref: `#/definitions/${path}` };
}

function optionSchema(option: Option): JsonSchema {
  const byDefault = option.default === undefined ? {} : { default: option.default };
  return { description: wordsOf(option), ...byDefault, ...valueSchema(option) };
}

type Value = Pick<Option, 'type' | 'values' | 'registeredBy' | 'format' | 'min' | 'max'>;

function orOwn({ registeredBy }: Value, words: readonly unknown[]): JsonSchema {
  const own = { type: 'string', pattern: ownName.source };
  return registeredBy === undefined ? { enum: words } : { anyOf: [{ enum: words }, own] };
}

/** What a file may hold there. `null` is what YAML makes of nothing after the colon. */
function valueSchema(value: Value): JsonSchema {
  const pattern = value.format && { pattern: formats[value.format].pattern.source };
  switch (value.type) {
    case 'boolean':
      return { type: ['boolean', 'null'] };
    case 'integer':
    case 'number':
      return { type: [value.type, 'null'], minimum: value.min, maximum: value.max };
    case 'enum':
      return orOwn(value, [...(value.values ?? []).flatMap(orNumber), null]);
    case 'list': {
      const items = value.values ? { enum: value.values } : { type: 'string', ...pattern };
      return { anyOf: [{ type: 'array', items }, { type: ['string', 'null'] }] };
    }
    case 'rules':
    case 'keys':
    case 'names':
      return structured[value.type];
    case 'string':
      return { type: ['string', 'null'], ...pattern };
  }
}

/** As YAML reads it: `acks: 1`. */
const orNumber = (text: string): (string | number)[] =>
  /^[0-9]+$/.test(text) ? [text, Number(text)] : [text];

const word = (values: readonly string[]) => ({
  type: 'string',
  pattern: `^(?:${values.map(anyCase).join('|')})$`,
});
const ruleProperties = {
  type: word(piiTypes),
  strategy: word(piiStrategies),
  level: word(piiLevels),
  keyId: { type: 'string', pattern: keyIdPattern.source },
  'key-id': { type: 'string', pattern: keyIdPattern.source },
  masker: { type: 'string' },
};
const oneRule = { type: 'object', additionalProperties: false, properties: ruleProperties };
const rulesByPath = {
  type: 'object',
  additionalProperties: { anyOf: [{ type: ['string', 'null'] }, oneRule] },
};
const ruleWithPath = {
  ...oneRule,
  required: ['path'],
  properties: { path: { type: 'string' }, ...ruleProperties },
};

/** What has a form of its own; the loader says more exactly what is wrong. */
const structured = {
  rules: {
    anyOf: [
      { type: ['string', 'null'] },
      { type: 'array', items: { anyOf: [{ type: 'string' }, ruleWithPath, rulesByPath] } },
      rulesByPath,
    ],
  },
  keys: {
    anyOf: [
      { type: ['string', 'null'] },
      {
        type: 'array',
        maxItems: 8,
        items: {
          type: 'object',
          additionalProperties: false,
          required: ['id', 'key'],
          properties: {
            id: { type: 'string', pattern: keyIdPattern.source },
            key: { type: 'string' },
            status: word(['primary', 'decrypt']),
          },
        },
      },
    ],
  },
  names: {
    anyOf: [
      { type: ['string', 'null'] },
      {
        type: 'object',
        additionalProperties: { anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' } }] },
      },
    ],
  },
};

const headersSchema = {
  type: ['object', 'null'],
  maxProperties: maxHeaders,
  additionalProperties: { type: ['string', 'null'] },
};

const text = { type: 'string', pattern: formats.text.pattern.source };
const outboxSchema = {
  anyOf: [
    { enum: [false, null] },
    {
      type: 'object',
      additionalProperties: false,
      properties: {
        ...{ aggregateType: text, 'aggregate-type': text, aggregateId: text, 'aggregate-id': text },
        result: { anyOf: [word(['transaction']), { type: 'null' }] },
      },
    },
  ],
};

/** Rules of a target may mean its whole payload. */
function fieldSchema(field: TargetField): JsonSchema {
  if (field.type === 'headers') return headersSchema;
  if (field.type === 'outbox') return outboxSchema;
  if (field.type !== 'rules') return valueSchema({ ...field, type: field.type });
  return { anyOf: [{ enum: [false] }, oneRule, ...structured.rules.anyOf] };
}

function anyCase(text: string): string {
  return text.replace(/[A-Za-z]/g, (letter) => `[${letter.toUpperCase()}${letter.toLowerCase()}]`);
}

function targetSchema(): JsonSchema {
  const known: Record<string, JsonSchema> = {};
  for (const field of targetFields) {
    const byDefault = field.default === undefined ? {} : { default: field.default };
    const schema = { description: wordsOf(field), ...byDefault, ...fieldSchema(field) };
    known[field.name] = schema;
    known[kebabCase(field.name)] = schema;
  }
  const required = targetFields.filter((field) => field.required).map((field) => field.name);
  return { type: 'object', additionalProperties: false, required, properties: known };
}
