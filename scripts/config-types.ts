import { camelCase, type Option } from '../src/config/schema/option.ts';
import { options } from '../src/config/schema/schema.ts';
import { wordsOf } from './option-words.ts';

const head = `// Made by scripts/generate-config-docs.ts: change the options in src/config/schema, not this file.
import type { EncryptionKeyConfig } from './check/pii-keys.ts';

/** The options as \`defineConfig\` shows them in an editor. Those with a form of their own are in \`define-config.ts\`. */
export `;

interface Section {
  [name: string]: Section | Option;
}

/** The whole of src/config/options-in-code.ts, not yet formatted. */
export function renderOptionTypes(): string {
  const root: Section = {};
  for (const option of options) {
    if (option.type === 'rules') continue;
    const path = option.name.split('.').map(camelCase);
    const last = path.pop() as string;
    let section = root;
    for (const part of path) {
      section[part] ??= {};
      section = section[part] as Section;
    }
    section[last] = option;
  }
  return `${head}${interfacesOf('OptionsInCode', root)}`;
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
