import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fastify, { type FastifyInstance } from 'fastify';
import ts from 'typescript';
import { writeOptionTypes } from '../../scripts/config-types.ts';
import { renderPage } from '../../scripts/generate-config-docs.ts';
import { buildJsonSchema } from '../../scripts/json-schema.ts';
import { loadConfig } from '../../src/config/read/load.ts';
import { options } from '../../src/config/schema/schema.ts';
import { folderWith, removeFolders } from './config-folder.ts';

function read(path: string): string {
  return readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
}

const renew = 'is stale: run node scripts/generate-config-docs.ts';

describe('what is made from the list of options', () => {
  it('docs/configuration.md is up to date', () => {
    assert.equal(read('docs/configuration.md'), renderPage(), `docs/configuration.md ${renew}`);
  });

  it('svc.config.schema.json is up to date', () => {
    const made = JSON.parse(JSON.stringify(buildJsonSchema()));
    assert.deepEqual(JSON.parse(read('svc.config.schema.json')), made, `svc.config.schema.json ${renew}`);
  });

  it('the types of the package are those that the sources derive', () => {
    writeOptionTypes();
    const file = fileURLToPath(new URL('../../.cache/option-types-check.ts', import.meta.url));
    const text = `import type { OptionsInCode as Derived } from '../src/config/options-in-code.ts';
      import type { OptionsInCode as Written } from './options-in-code.d.ts';
      export const there = (options: Derived): Written => options;
      export const back = (options: Written): Derived => options;`;
    writeFileSync(file, text);
    const strict = { strict: true, exactOptionalPropertyTypes: true, types: ['node'], noEmit: true };
    const form = { target: ts.ScriptTarget.ES2024, module: ts.ModuleKind.NodeNext, skipLibCheck: true };
    const program = ts.createProgram([file], { ...strict, ...form, allowImportingTsExtensions: true });
    const found = ts.getPreEmitDiagnostics(program, program.getSourceFile(file));
    assert.deepEqual(
      found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' ')),
      [],
    );
  }).timeout(60_000);

  it('the page names every option and shows no default of a secret', () => {
    const page = renderPage();
    for (const { name } of options) assert.equal(page.split(`\`${name}\``).length > 1, true, name);
    assert.deepEqual(
      options.filter((option) => option.secret && option.default !== undefined),
      [],
    );
  });
});

describe('the JSON Schema', () => {
  let server: FastifyInstance;
  before(async () => {
    // Fastify holds a validator that takes draft 7; strict mode finds mistakes of the schema itself.
    const strict = {
      coerceTypes: false,
      useDefaults: false,
      removeAdditional: false,
      allowUnionTypes: true,
      strict: true,
    };
    server = fastify({ ajv: { customOptions: { ...strict, strictRequired: false } } });
    server.post('/', { schema: { body: buildJsonSchema() } }, () => 'ok');
    await server.ready();
  });
  after(async () => {
    await server.close();
    removeFolders();
  });

  async function accepts(file: unknown): Promise<boolean> {
    const answer = await server.inject({ method: 'POST', url: '/', payload: file as object });
    return answer.statusCode === 200;
  }

  function loads(file: object): boolean {
    const cwd = folderWith({ 'svc.config.json': JSON.stringify(file) });
    const { problems, targetProblems } = loadConfig({ cwd, env: {} });
    return problems.length + targetProblems.length === 0;
  }

  const target = { module: './a.ts', function: 'b' };
  const good: object[] = [
    { $schema: './svc.config.schema.json', svc: { broker: { topic: 'a' } } },
    { 'svc.broker.topic': 'a', 'svc.broker.asyncMode': true },
    { svc: { 'broker.topic': 'a' } },
    { svc: { broker: { topic: 'a', bootstrapServers: 'a:1,b:2', 'max-in-flight': 1000 } } },
    {
      svc: {
        broker: { topic: 'a', 'bootstrap-servers': ['a:1'], file: null },
        idGenerator: { workerId: 1023 },
      },
    },
    {
      svc: {
        broker: { topic: 'a' },
        targets: [{ ...target, 'event-type': 'A', payloadIndex: 0, pii: false }],
      },
    },
    { svc: { broker: { topic: 'a' } }, management: { endpoints: { web: { exposure: { include: ['*'] } } } } },
  ];
  for (const [index, file] of good.entries()) {
    it(`accepts what the loader accepts (${index})`, async () => {
      assert.deepEqual([await accepts(file), loads(file)], [true, true]);
    });
  }

  const bad: object[] = [
    { svc: { broker: { topic: 'a b' } } },
    { svc: { broker: { topic: 'a', tpoic: 'a' } } },
    { svc: { broker: { topic: 'a', 'max-in-flight': 1001 } } },
    { svc: { broker: { topic: 'a', maxInFlight: 1.5 } } },
    { svc: { broker: { topic: 'a' }, idGenerator: { workerId: 1024 } } },
    { svc: { broker: { topic: 'a' }, targets: [{ module: 'a' }] } },
    { svc: { broker: { topic: 'a' }, targets: [{ ...target, pii: [7] }] } },
    { svc: { broker: { topic: 'a' }, targets: target } },
    { svc: { broker: { topic: 'a', bootstrapServers: ['a'] } } },
    { svc: { broker: 'a' } },
    { broker: { topic: 'a' } },
  ];
  for (const [index, file] of bad.entries()) {
    it(`refuses what the loader refuses (${index})`, async () => {
      assert.deepEqual([await accepts(file), loads(file)], [false, false]);
    });
  }
});
