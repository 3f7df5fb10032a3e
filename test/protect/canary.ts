import assert from 'node:assert/strict';
import ts from 'typescript';
import { PiiField } from '../../src/index.ts';

/** What must never be seen outside, in any of the forms that it could take. */
export const canaries = {
  email: 'canary.bird@cage.example.com',
  phone: '+49 30 90182077',
  card: '4111 1111 1111 1111',
  name: 'Tweety Canary-Bird',
  iban: 'DE89370400440532013000',
};
/** Keys that protect them: no sink shows these either. */
export const canarySecrets = {
  key: Buffer.alloc(32, 7).toString('base64'),
  salt: 'a salt for the canary',
};
const texts = [...Object.values(canaries), ...Object.values(canarySecrets)].flatMap(formsOf);

function formsOf(text: string): string[] {
  return [
    text,
    text.replaceAll(' ', ''),
    encodeURIComponent(text),
    Buffer.from(text).toString('base64').replace(/=+$/, '').slice(0, -1),
    Buffer.from(text).toString('hex'),
  ];
}

/** `more`: further secrets, such as the token of a key service. */
export function assertSilent(where: string, content: string, more: readonly string[] = []): void {
  for (const text of [...texts, ...more.flatMap(formsOf)])
    assert.equal(content.includes(text), false, `${where} shows ${text}`);
}

export interface Person {
  email: string;
  failing?: boolean;
}
export type PersonClass = new () => Person;

/** A class as a compiler makes it, each field marked: `strategies` by the name of the field, else MASK. */
export function marked(strategies: Readonly<Record<string, string>>): PersonClass {
  const fields = Object.entries(canaries).map(
    ([name, text]) =>
      `@PiiField({ type: '${name === 'iban' ? 'ACCOUNT' : name.toUpperCase()}', strategy: '${strategies[name] ?? 'MASK'}' })
       ${name} = ${JSON.stringify(text)};`,
  );
  const text = `import { PiiField } from 'svc'; export class Person { ${fields.join('\n')} }`;
  const { outputText } = ts.transpileModule(text, {
    compilerOptions: { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022 },
  });
  const exports: { Person?: PersonClass } = {};
  new Function('exports', 'require', outputText)(exports, () => ({ PiiField }));
  return exports.Person as PersonClass;
}

/** As a getter, `toJSON`, trap or expression of the application fails: with the values in its message. */
export const throwing = (): never => {
  throw new Error(`cannot send to ${canaries.email} (${canaries.card})`);
};
