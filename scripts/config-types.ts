import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { camelCase, type Option, options } from '../src/config/schema/schema.ts';
import { wordsOf } from './option-words.ts';

const file = resolve(import.meta.dirname, '../.cache/options-in-code.d.ts');

/**
 * Writes what stands in the package for src/config/options-in-code.ts (tsconfig.build.json): the options one by one, with their
 * comments. Of a type that is derived editors show none.
 */
export function writeOptionTypes(): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, renderOptionTypes());
}

const head = `import type { EncryptionKeyConfig } from '../src/config/check/check.ts';

/** The options as \`defineConfig\` shows them in an editor. Those with a form of their own are in \`define-config.ts\`. */
export `;

interface Section {
  [name: string]: Section | Option;
}

export function renderOptionTypes(): string {
  const tree: Section = {};
  for (const option of options) {
    if (option.type === 'rules') continue;
    const path = option.name.split('.').map(camelCase);
    const last = path.pop() as string;
    let section = tree;
    for (const part of path) {
      section[part] ??= {};
      section = section[part] as Section;
    }
    section[last] = option;
  }
  return `${head}${interfacesOf('OptionsInCode', tree)}`;
}

/** An interface for each section: comments within nested types do not reach the types of the package. */
function interfacesOf(name: string, section: Section): string {
  let members = '';
  let inside = '';
  for (const [key, member] of Object.entries(section)) {
    if (isOption(member)) {
      members += `/** ${commentOf(member)} */\nreadonly ${key}: ${typeOf(member)};\n`;
    } else {
      const part = `${name === 'OptionsInCode' ? '' : name}${key.charAt(0).toUpperCase()}${key.slice(1)}`;
      members += `readonly ${key}: ${part};\n`;
      inside += `\n${interfacesOf(part, member)}`;
    }
  }
  return `interface ${name} {\n${members}}\n${inside}`;
}

function isOption(member: Section | Option): member is Option {
  return typeof member.name === 'string';
}

function commentOf(option: Option): string {
  const { unit, default: value, defaultText, secret } = option;
  const byDefault = defaultText ?? (value === undefined || secret ? undefined : String(value));
  const parts = [
    wordsOf(option),
    unit === undefined ? '' : `In ${unit}.`,
    byDefault === undefined || byDefault === '' ? '' : `Default: ${byDefault}.`,
  ];
  return parts
    .filter((part) => part !== '')
    .join(' ')
    .replaceAll('*/', '*\\/');
}

function typeOf({ type, values = [], registeredBy, orFunction }: Option): string {
  const types = {
    boolean: 'boolean',
    integer: 'number',
    number: 'number',
    string: 'string',
    enum: [...values.map((value) => `'${value}'`), ...(registeredBy ? ['(string & {})'] : [])].join(' | '),
    list: 'readonly string[]',
    keys: 'readonly EncryptionKeyConfig[]',
    names: 'Readonly<Record<string, string | readonly string[]>>',
    rules: 'never',
  } as const satisfies Record<Option['type'], string>;
  return orFunction ? `${types[type]} | ((request: unknown) => unknown)` : types[type];
}
