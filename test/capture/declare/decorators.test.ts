import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, it } from 'mocha';
import ts from 'typescript';
import { heldOf } from '../../../src/capture/captured-functions.ts';
import {
  connectDeclarations,
  type Declaration,
  disconnectDeclarations,
} from '../../../src/capture/declare/declarations.ts';
import { PublishEvent } from '../../../src/capture/declare/publish-event.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { forgetDeclarations } from '../forget-declarations.ts';
import { assertPrecedes, forgetNotes } from '../notes.ts';
import { type RecordingSlot, recordingSlot } from '../recording-slot.ts';
import { wrapMember } from '../wrap-member.ts';

// biome-ignore lint/suspicious/noExplicitAny: classes that are compiled while the test runs
type Compiled = Record<string, any>;

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/${name}.ts`, import.meta.url));

async function compile(name: string, options: ts.CompilerOptions): Promise<Compiled> {
  const text = await readFile(fixture(name), 'utf8');
  const { outputText, diagnostics } = ts.transpileModule(text, {
    reportDiagnostics: true,
    compilerOptions: { module: ts.ModuleKind.CommonJS, ...options },
  });
  assert.deepEqual(diagnostics, []);
  const exports: Compiled = {};
  new Function('exports', 'require', outputText)(exports, () => ({ PublishEvent }));
  return exports;
}

describe('PublishEvent', () => {
  let slots: Map<string, RecordingSlot>;
  let declarations: Declaration[];
  let failures: string[];

  const connect = () =>
    connectDeclarations(
      (declaration) => {
        declarations.push(declaration);
        const slot = recordingSlot({ id: declaration.name, origin: declaration.origin });
        slots.set(declaration.name, slot);
        return slot;
      },
      (declaration, reason) => failures.push(`${declaration.name}: ${reason}`),
    );

  beforeEach(() => {
    slots = new Map();
    declarations = [];
    failures = [];
  });
  afterEach(() => {
    disconnectDeclarations();
    forgetDeclarations();
    forgetNotes();
  });

  const { ES2017, ES2022 } = ts.ScriptTarget;
  for (const experimentalDecorators of [false, true]) {
    for (const useDefineForClassFields of [false, true]) {
      for (const target of [ES2017, ES2022]) {
        const mode = { experimentalDecorators, useDefineForClassFields, target };
        const title = `${experimentalDecorators ? 'legacy' : 'TC39'}, define ${useDefineForClassFields}, ${ts.ScriptTarget[target]}`;

        it(`${title}: captures methods and statics; the classes behave as before`, async () => {
          connect();
          const { Orders, SpecialOrders } = await compile('orders', mode);
          const orders = new SpecialOrders();
          assert.deepEqual(await orders.create(7), { id: 'o7' });
          assert.equal(orders.cancel('o7'), 'o7');
          assert.equal(Orders.purge(3), 3);
          const counts = [...slots].map(([name, { calls }]) => [name, calls]).sort();
          assert.deepEqual(counts, [
            ['Orders.cancel', 1],
            ['Orders.create', 1],
            ['Orders.purge', 1],
          ]);
          const create = declarations.find(({ name }) => name === 'Orders.create');
          assert.equal(create?.origin, 'decorator');
          assert.equal(create?.options.eventType, 'ORDER_CREATED');
          assert.deepEqual(create?.parameterNames, ['number']);
          const [call] = slots.get('Orders.create')?.seen ?? [];
          assert.equal(call?.self, orders);
          assert.deepEqual(call?.result, { id: 'o7' });
          assert.equal(Orders.prototype.create.name, 'create');
          assert.equal(Orders.prototype.cancel.length, 2);
          assert.equal(Object.getOwnPropertyDescriptor(Orders.prototype, 'create')?.enumerable, false);
          assert.deepEqual(Object.keys(orders), ['prefix']);
          assert.deepEqual(failures, []);
        });

        it(`${title}: does nothing while svc does not run, and goes live when it starts`, async () => {
          const { Orders } = await compile('orders', mode);
          const orders = new Orders();
          assert.deepEqual(await orders.create(1), { id: 'o1' });
          assert.equal(Orders.purge(1), 1);
          assert.equal(slots.size, 0);
          connect();
          assert.deepEqual([...slots.keys()].sort(), ['Orders.cancel', 'Orders.create', 'Orders.purge']);
          await orders.create(2);
          Orders.purge(2);
          assert.equal(slots.get('Orders.create')?.calls, 1);
          assert.equal(slots.get('Orders.purge')?.calls, 1);
        });
      }
    }
  }

  for (const useDefineForClassFields of [false, true]) {
    for (const target of [ES2017, ES2022]) {
      const title = `TC39, define ${useDefineForClassFields}, ${ts.ScriptTarget[target]}`;
      it(`${title}: captures arrow fields, accessors, getters, setters and private methods`, async () => {
        connect();
        const { Fields } = await compile('standard-only', { useDefineForClassFields, target });
        const [a, b] = [new Fields(), new Fields()];
        b.factor = 5;
        assert.equal(await a.double(1), 2);
        assert.equal(await b.double(1), 5);
        assert.notEqual(a.double, b.double);
        assert.equal(a.triple(2), 6);
        assert.equal(Fields.half(4), 2);
        assert.equal(a.total, 2);
        a.total = 9;
        assert.equal(a.factor, 9);
        assert.equal(a.reveal(4), 4);
        assert.equal(slots.get('Fields.double')?.calls, 2);
        assert.equal(slots.get('Fields.double')?.seen[1]?.self, b);
        assert.equal(slots.get('Fields.triple')?.calls, 1);
        assert.equal(slots.get('Fields.half')?.calls, 1);
        assert.equal(slots.get('Fields.#hidden')?.calls, 1);
        assert.deepEqual(
          declarations.map(({ name }) => name).filter((name) => name === 'Fields.total').length,
          2,
        );
        assert.equal(a.plain, 3);
        assert.deepEqual(failures, [
          'Fields.plain: the field does not hold a function when it is initialized',
        ]);
      });
    }
  }

  it('goes live at start for the arrow fields of instances that exist', async () => {
    const { Fields } = await compile('standard-only', { target: ES2022 });
    const fields = new Fields();
    connect();
    await fields.double(1);
    await new Fields().double(1);
    assert.equal(slots.get('Fields.double')?.calls, 2);
  });

  it('says why a legacy decorator cannot capture a field, and leaves the field alone', async () => {
    connect();
    const text = 'class A { @PublishEvent() run = () => 1; } exports.A = A;';
    const { outputText } = ts.transpileModule(text, {
      compilerOptions: { experimentalDecorators: true, target: ES2022, module: ts.ModuleKind.CommonJS },
    });
    const exports: Compiled = {};
    new Function('exports', 'PublishEvent', outputText)(exports, PublishEvent);
    assert.equal(new exports.A().run(), 1);
    assert.match(failures[0] ?? '', /^A\.run: a legacy decorator cannot see/);
  });

  it('says that a class cannot be captured', () => {
    connect();
    const decorate = PublishEvent({}) as unknown as (value: unknown, context: unknown) => unknown;
    assert.equal(decorate(class A {}, { kind: 'class', name: 'A' }), undefined);
    assert.match(failures[0] ?? '', /^A: a class is not called/);
  });

  it('reports a target that cannot be made, and the method runs', async () => {
    connectDeclarations(
      () => {
        throw new Error('bad expression');
      },
      (declaration, reason) => failures.push(`${declaration.name}: ${(reason as Error).message}`),
    );
    const { Orders } = await compile('orders', { target: ES2022 });
    assert.equal(new Orders().cancel('o1'), 'o1');
    assert.ok(failures.includes('Orders.cancel: bad expression'));
  });

  for (const experimentalDecorators of [false, true]) {
    it(`gives way to a configured target (${experimentalDecorators ? 'legacy' : 'TC39'}), before or after it is live`, async () => {
      for (const isLive of [true, false]) {
        forgetNotes();
        slots.clear();
        disconnectDeclarations();
        forgetDeclarations();
        if (isLive) connect();
        const { Orders } = await compile('orders', { target: ES2022, experimentalDecorators });
        const configured = recordingSlot();
        assert.equal(wrapMember(Orders.prototype, 'create', configured), 'wrapped');
        const orders = new Orders();
        if (!isLive) connect();
        await orders.create(1);
        assert.equal(configured.calls, 1);
        assert.equal(slots.get('Orders.create')?.calls, 0);
        assert.equal(heldOf(Orders.prototype.create)?.slot, configured);
        assertPrecedes('src/orders.ts#create', 'Orders.create');
      }
    });
  }

  it('names the class that has the method, under other decorators as well', () => {
    connect();
    const outer = (value: (n: number) => number) =>
      function (this: unknown, n: number) {
        return value.call(this, n) + 1;
      };
    const text =
      'class A { @outer @PublishEvent() run(n) { return n; } } class B extends A {} exports.B = B;';
    const { outputText } = ts.transpileModule(text, {
      compilerOptions: { target: ES2022, module: ts.ModuleKind.CommonJS },
    });
    const exports: Compiled = {};
    new Function('exports', 'PublishEvent', 'outer', outputText)(exports, PublishEvent, outer);
    assert.equal(new exports.B().run(1), 2);
    assert.equal(slots.get('A.run')?.calls, 1);
  });

  describe('types', () => {
    const check = (name: string, experimentalDecorators: boolean): string[] => {
      const program = ts.createProgram([fixture(name)], {
        target: ES2022,
        module: ts.ModuleKind.NodeNext,
        moduleResolution: ts.ModuleResolutionKind.NodeNext,
        lib: ['lib.es2023.d.ts', 'lib.esnext.decorators.d.ts'],
        types: ['node'],
        strict: true,
        noEmit: true,
        skipLibCheck: true,
        allowImportingTsExtensions: true,
        experimentalDecorators,
      });
      return ts
        .getPreEmitDiagnostics(program, program.getSourceFile(fixture(name)))
        .map(({ file, start }) => `${(file?.getLineAndCharacterOfPosition(start ?? 0).line ?? 0) + 1}`);
    };

    for (const isLegacy of [false, true]) {
      it(`${isLegacy ? 'legacy' : 'TC39'}: right code compiles, mistakes do not`, function () {
        this.timeout(30_000);
        assert.deepEqual(check('orders', isLegacy), []);
        if (!isLegacy) assert.deepEqual(check('standard-only', false), []);
        assert.deepEqual([...new Set(check('wrong-types', isLegacy))], ['5', '10', '13', '17', '18']);
      });
    }
  });

  describe('under tsx', () => {
    for (const experimentalDecorators of [false, true]) {
      it(experimentalDecorators ? 'legacy' : 'TC39', async function () {
        this.timeout(30_000);
        const folder = temporaryFolder('decorators');
        const source = (file: string) => pathToFileURL(path.resolve('src/capture/declare', file)).href;
        const text = (await readFile(fixture('orders'), 'utf8')).replace(
          '../../../src/capture/declare/publish-event.ts',
          source('publish-event.ts'),
        );
        await writeFile(path.join(folder, 'orders.ts'), text);
        await writeFile(
          path.join(folder, 'main.ts'),
          `import { connectDeclarations } from '${source('declarations.ts')}';
             import { Orders } from './orders.ts';
             const slots: any[] = [];
             connectDeclarations(({ name }) => {
               const slot: any = { plan: { id: name, origin: 'decorator', phase: 'AFTER' }, calls: 0, onCall: () => undefined };
               slots.push(slot);
               return slot;
             });
             await new Orders().create(1);
             new Orders().cancel('a');
             Orders.purge(1);
             console.log(JSON.stringify(slots.map((slot) => [slot.plan.id, slot.calls]).sort()));`,
        );
        await writeFile(path.join(folder, 'package.json'), '{"type":"module"}');
        await writeFile(
          path.join(folder, 'tsconfig.json'),
          JSON.stringify({ compilerOptions: { experimentalDecorators, target: 'es2022' } }),
        );
        const tsx = fileURLToPath(import.meta.resolve('tsx'));
        const { stdout } = await promisify(execFile)(
          process.execPath,
          ['--import', pathToFileURL(tsx).href, 'main.ts'],
          { cwd: folder },
        );
        assert.deepEqual(JSON.parse(stdout), [
          ['Orders.cancel', 1],
          ['Orders.create', 1],
          ['Orders.purge', 1],
        ]);
      });
    }
  });
});
