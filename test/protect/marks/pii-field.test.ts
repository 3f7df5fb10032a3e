import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import ts from 'typescript';
import { SvcError } from '../../../src/ground/errors.ts';
import { classMarks, PiiField } from '../../../src/protect/marks/policy.ts';
import { publishes, refuses } from '../protecting.ts';

// biome-ignore lint/suspicious/noExplicitAny: classes that are compiled while the test runs
type Compiled = Record<string, any>;

const source = readFileSync(new URL('../fixtures/people.ts', import.meta.url), 'utf8');

function compile(text: string, options: ts.CompilerOptions): Compiled {
  const { outputText } = ts.transpileModule(text, {
    compilerOptions: { module: ts.ModuleKind.CommonJS, ...options },
  });
  const exports: Compiled = {};
  new Function('exports', 'require', outputText)(exports, () => ({ PiiField }));
  return exports;
}

const { ES2017, ES2022 } = ts.ScriptTarget;
const modes = [false, true].flatMap((experimentalDecorators) =>
  [false, true].flatMap((useDefineForClassFields) =>
    [ES2017, ES2022].map((target) => ({ experimentalDecorators, useDefineForClassFields, target })),
  ),
);

describe('PiiField', () => {
  for (const mode of modes) {
    const kind = mode.experimentalDecorators ? 'legacy' : 'TC39';
    describe(`${kind}, define ${mode.useDefineForClassFields}, ${ts.ScriptTarget[mode.target]}`, () => {
      // A private field takes no legacy decorator.
      const text = mode.experimentalDecorators
        ? source.replaceAll('#alias', 'alias').replaceAll('this.alias }, other', 'this.alias }, other')
        : source;
      const { Person, Employee, Plain, Renaming, Address, Hiding, Getter } = compile(text, mode);
      const person = { name: '****', email: 'a***@ex*****.com', city: 'Berlin' };

      it('follows an instance wherever it stands', () => {
        const payload = {
          one: new Person(),
          list: [new Person()],
          deep: { map: new Map([['a', new Person()]]), set: new Set([new Person()]) },
        };
        assert.deepEqual(publishes(payload), {
          one: person,
          list: [person],
          deep: { map: { a: person }, set: [person] },
        });
        assert.deepEqual(publishes(new Person()), person);
        assert.deepEqual(publishes([new Person()]), { value: [person] });
      });

      it('leaves the instance as it is', () => {
        const one = new Person();
        publishes(one);
        assert.deepEqual({ ...one }, { ...new Person() });
        assert.equal(one.email, 'ada@example.com');
      });

      it('is inherited, and a subclass may decide anew', () => {
        const employee = { ...person, email: '***@***.com', iban: 'DE89****' };
        assert.deepEqual(publishes(new Employee()), employee);
        assert.deepEqual(publishes(new Plain()), { ...employee, note: 'x' });
        assert.deepEqual(publishes(new Person()), person);
      });

      it('means objects that no constructor has made', () => {
        const made = Object.assign(Object.create(Person.prototype), { email: 'ada@example.com' });
        assert.deepEqual(publishes({ made }), { made: { email: 'a***@ex*****.com' } });
      });

      it('goes through toJSON, also to other names and into other texts', () => {
        assert.deepEqual(publishes({ a: new Renaming() }), {
          a: {
            contact: { mail: 'a***@ex*****.com', line: '****', alias: 'C***' },
            other: 'x',
          },
        });
        assert.deepEqual(publishes({ a: new Address() }), { a: '***@***.com' });
        assert.deepEqual(publishes(new Address()), { value: '***@***.com' });
        refuses({ a: new Hiding() }, 'SVC_PROTECT_TOJSON_HIDES_FIELDS');
      });

      it('marks getters', () => {
        const { a } = publishes({ a: new Getter() }) as { a: { email: string } };
        assert.match(a.email, /^ad\*+@ex\*+\.com$/);
      });
    });
  }

  it('tells who listens of the rules that classes have', () => {
    const strategies: string[] = [];
    classMarks.watch(({ strategy }) => strategies.push(strategy));
    compile('import { PiiField } from "x"; export class A { @PiiField({ strategy: "HASH" }) a = 1 }', {
      target: ES2022,
    });
    classMarks.watch(undefined);
    assert.equal(strategies.at(-1), 'HASH');
  });

  it('works where the compiler knows no metadata', () => {
    const initializers: ((this: unknown) => void)[] = [];
    const context = {
      kind: 'field',
      name: 'email',
      static: false,
      addInitializer: (run: (this: unknown) => void) => initializers.push(run),
    };
    PiiField('EMAIL')(undefined, context as unknown as ClassFieldDecoratorContext);
    class User {
      email = 'ada@example.com';
      constructor() {
        for (const run of initializers) run.call(this);
      }
    }
    assert.deepEqual(publishes(new User()), { email: 'a***@ex*****.com' });
  });

  for (const [what, use] of [
    ['an unknown type', () => PiiField({ type: 'FOO' as 'NAME' })({}, 'a')],
    ['an unknown strategy', () => PiiField({ strategy: 'FOO' as 'MASK' })({}, 'a')],
    ['an unknown level', () => PiiField({ level: 'FOO' as 'WEAK' })({}, 'a')],
    ['a parameter of a constructor', () => PiiField()(class {}, undefined as unknown as string)],
    ['a static member', () => PiiField()(class {}, 'a')],
    [
      'a method',
      () =>
        PiiField()(undefined, {
          kind: 'method',
          name: 'a',
          static: false,
        } as unknown as ClassFieldDecoratorContext),
    ],
  ] as const) {
    it(`refuses ${what}`, () =>
      assert.throws(use, (error) => error instanceof SvcError && error.code === 'SVC_PROTECT_RULE'));
  }

  for (const target of [ES2017, ES2022]) {
    it(`follows a private field to whatever name its class publishes it under (${ts.ScriptTarget[target]})`, () => {
      const { Account, Savings } = compile(
        `import { PiiField } from 'svc';
         export class Account {
           @PiiField('ACCOUNT') #iban: string;
           @PiiField({ type: 'PHONE', strategy: 'EXCLUDE' }) accessor #phone = '+49 30 901820';
           constructor(iban = 'DE89370400440532013000') { this.#iban = iban; }
           toJSON() { return { konto: this.#iban, text: 'to ' + this.#iban, calls: [this.#phone, 'x'], name: 'Ada' }; }
         }
         export class Savings extends Account { constructor() { super('GB33BUKB20201555555555'); } }`,
        { target },
      );
      const shown = { konto: 'DE89****', text: '****', calls: ['x'], name: 'Ada' };
      assert.deepEqual(publishes(new Account()), shown);
      assert.deepEqual(publishes({ a: [new Account()] }), { a: [shown] });
      assert.deepEqual(publishes(new Savings()), { ...shown, konto: 'GB33****' });
      // It has no such field to be read, and nothing to hide.
      const made = Object.assign(Object.create(Account.prototype), { toJSON: () => ({ konto: 1 }) });
      assert.deepEqual(publishes(made), { konto: 1 });
    });
  }
});
