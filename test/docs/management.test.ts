import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { openapiDocument } from '../../src/manage/openapi.ts';
import { exposedRoutes } from '../../src/manage/routes.ts';
import { renderMetrics } from '../../src/observe/prometheus.ts';
import { measuredHealth } from '../manage/measured-health.ts';
import { filledSources } from '../observe/metric-sources.ts';

const root = resolve(import.meta.dirname, '../..');
const page = ['docs/management.md', 'docs/internals/management.md']
  .map((path) => readFileSync(join(root, path), 'utf8'))
  .join('\n');

/** The cells of the rows below a heading. */
function rowsOf(heading: string): string[][] {
  const part = page.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? assert.fail(heading);
  const lines = part.split('\n').filter((line) => line.startsWith('|'));
  return lines.slice(2).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}
/** The tests that a row of internals names, for the first cell of a row. */
const testsOf = (heading: string, first: string): string[] =>
  codes(rowsOf(heading).find(([cell]) => cell === first)?.[1] ?? assert.fail(first));
const codes = (cell: string): string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, code]) => code as string);

type Json = Readonly<Record<string, unknown>>;
const document = openapiDocument(exposedRoutes(['*'])) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Json>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Json>> };
};

/** All names that a schema gives to members, those within others too. */
function namesIn(schema: unknown, names = new Set<string>()): Set<string> {
  if (typeof schema !== 'object' || schema === null) return names;
  const { $ref, properties, ...rest } = schema as Json & { readonly $ref?: string };
  if ($ref !== undefined) namesIn(document.components.schemas[$ref.split('/').at(-1) as string], names);
  for (const [name, member] of Object.entries((properties ?? {}) as Json)) namesIn(member, names.add(name));
  for (const part of Object.values(rest)) namesIn(part, names);
  return names;
}

describe('docs/management.md', () => {
  const rows = rowsOf('Endpoints');
  const routes = exposedRoutes(['*']);

  it('has a row for each endpoint, and for no other', () => {
    assert.deepEqual(
      rows.map(([endpoint]) => codes(endpoint as string)[0]).sort(),
      routes.map(({ method, path }) => `${method} ${path}`).sort(),
    );
  });

  /** A cell may name an endpoint whose fields it has too. */
  const fieldsOf = (answers: string): string[] =>
    codes(answers).flatMap((code) => {
      const other = rows.find(([endpoint]) => endpoint === `\`${code}\``);
      return other === undefined ? code : codes(other[4] as string);
    });

  for (const { method, path, ids, action, hasDryRun } of routes)
    it(`says of ${method} ${path} with what it is exposed, who may ask, each field, and its test`, () => {
      const row = rows.find(([endpoint]) => endpoint === `\`${method} ${path}\``) ?? assert.fail();
      const [endpoint = '', exposedWith = '', needs = '', takes = '', answers = ''] = row;
      assert.deepEqual(codes(exposedWith), ids);
      assert.deepEqual(codes(needs), action === undefined ? [] : [action]);
      assert.equal(/dry run/.test(needs), hasDryRun === true);
      const {
        requestBody,
        parameters = [],
        responses,
      } = (document.paths[path] as Json)[method.toLowerCase()] as Json;
      const given = (parameters as { readonly name: string }[]).map(({ name }) => name);
      assert.deepEqual(codes(takes).sort(), [...namesIn(requestBody), ...given].sort());
      const own = Object.entries(responses as Json).filter(
        ([, answer]) => (answer as Json).description !== 'What is wrong.',
      );
      assert.deepEqual(
        [...new Set(fieldsOf(answers))].sort(),
        [...namesIn(own.map(([, answer]) => answer))].sort(),
      );
      const files = testsOf('Tests of the endpoints', endpoint);
      assert.ok(files.length > 0);
      for (const file of files) {
        assert.ok(existsSync(join(root, file)), file);
        assert.ok(readFileSync(join(root, file), 'utf8').includes(path), `${file} does not ask for ${path}`);
      }
    });

  /** Tables below one heading, one after the other. */
  const [ofMetrics, ofErrors] = ['svc.', ''].map((start) =>
    rowsOf('Names of the specification').filter(([name = '', , test]) => {
      const isMetric = name.startsWith('`svc.');
      return test !== undefined && name.startsWith('`') && isMetric === (start !== '');
    }),
  ) as [string[][], string[][]];

  it('has a row for each metric of the specification, which /metrics has', async () => {
    assert.equal(ofMetrics.length, 9);
    const text = await renderMetrics(filledSources(), { name: 'orders', version: '1.4.0' });
    for (const [name = '', series = '', test = ''] of ofMetrics) {
      for (const each of codes(series)) assert.match(text, new RegExp(`^# TYPE ${each} `, 'm'), name);
      assert.ok(existsSync(join(root, codes(test)[0] as string)), test);
    }
  });

  it('has a row for each error of the specification, with a test that holds its words', () => {
    assert.equal(ofErrors.length, 11);
    for (const [name = '', , test = ''] of ofErrors) {
      const text = readFileSync(join(root, codes(test)[0] as string), 'utf8');
      assert.ok(text.includes(codes(name)[0] as string), `${test} has no ${name}`);
    }
  });

  it('names tests that are there', () => {
    for (const [, file = ''] of page.matchAll(/`(test\/[^`]+)`/g))
      assert.ok(existsSync(join(root, file)), file);
  });

  type Measured = Parameters<typeof measuredHealth>[0];
  /** By the field of the specification: what is measured where it has this value. */
  const measures: Readonly<Record<string, (value: number) => Measured>> = {
    successRate: (value) => ({ recent: { published: value * 100, failed: (100 - value) * 100 } }),
    totalDlqEvents: (dlq) => ({ recent: { dlq } }),
    totalBrokerErrors: (brokerErrors) => ({ recent: { brokerErrors } }),
    'publish duration': (ms) => ({ recent: { sends: 100, sendSeconds: ms / 10 } }),
    totalPending: (totalPending) => ({ outbox: { totalPending } }),
    consecutiveFailures: (consecutiveFailures) => ({ outbox: { consecutiveFailures } }),
    timeSinceLastSuccessMs: (value) => ({ outbox: { timeSinceLastSuccessMs: value, totalPending: 1 } }),
  };

  it('has a row for each threshold of the health details, with the numbers that hold', async () => {
    const thresholds = rowsOf('Thresholds');
    assert.deepEqual(
      thresholds.map(([name]) => codes(name as string)[0]),
      Object.keys(measures),
    );
    for (const [name = '', warning = '', critical = ''] of thresholds) {
      const measure = measures[codes(name)[0] as string] as (value: number) => Measured;
      for (const [state, cell] of [
        ['WARNING', warning],
        ['CRITICAL', critical],
      ] as const) {
        if (cell === '') continue;
        const [, side, number] = /^(over|under) ([\d.,]+)/.exec(cell) ?? assert.fail(cell);
        const at = Number((number as string).replaceAll(',', ''));
        const step = side === 'over' ? 1 : -0.1;
        assert.equal((await measuredHealth(measure(at + step))).state, state, `${name} beyond ${at}`);
        assert.notEqual((await measuredHealth(measure(at))).state, state, `${name} at ${at}`);
      }
      for (const file of testsOf('Tests of the thresholds', name))
        assert.ok(existsSync(join(root, file)), file);
    }
  });
});
