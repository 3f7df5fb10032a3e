import assert from 'node:assert/strict';
import fc from 'fast-check';
import { formatProblem } from '../../src/config/check/check.ts';
import { loadConfig } from '../../src/config/read/load.ts';
import { camelCase, options, targetsName, variableOf } from '../../src/config/schema/schema.ts';
import { targetFields } from '../../src/config/schema/target.ts';
import { folderWith, removeFolders } from './config-folder.ts';

const anything = fc.anything({
  withBigInt: true,
  withBoxedValues: true,
  withDate: true,
  withMap: true,
  withSet: true,
  withNullPrototype: true,
  withObjectString: true,
  withSparseArray: true,
  withTypedArray: true,
});
const names = fc.constantFrom(
  ...options.flatMap(({ name }) => [name, camelCase(name)]),
  targetsName,
  'svc',
  'svc.broker',
);
const targets = fc.array(
  fc.dictionary(fc.constantFrom(...targetFields.map(({ name }) => name), 'x'), anything),
);
const settings = fc.dictionary(names, fc.oneof(anything, targets), { maxKeys: 8 });
const texts = fc.dictionary(
  fc.constantFrom(...options.map(({ name }) => variableOf(name)), 'SVC_TARGETS', 'SVC_BROKER_TPOIC'),
  fc.string(),
);

function check(code: object, env: Record<string, string>, cwd: string): void {
  const loaded = loadConfig({ cwd, env, code });
  const all = [
    ...loaded.problems,
    ...loaded.warnings,
    ...loaded.targetProblems.flatMap(({ problems }) => problems),
  ];
  for (const problem of all) {
    const line = formatProblem(problem);
    assert.doesNotMatch(line, /\p{Cc}/u);
    assert.ok(line.length < 800, line);
  }
  assert.ok(Number.isInteger(loaded.config.broker.maxInFlight) && loaded.config.broker.maxInFlight >= 1);
}

describe('loadConfig with anything at all', () => {
  after(removeFolders);

  it('never throws, says one short line for each problem, and always gives a usable structure', () => {
    const cwd = folderWith();
    fc.assert(
      fc.property(fc.oneof(settings, fc.object()), texts, (code, env) => check(code, env, cwd)),
      { numRuns: 500 },
    );
  });

  it('never throws for a YAML or JSON file of any text', () => {
    const text = fc.oneof(
      fc.string(),
      fc.string({ unit: fc.constantFrom(...'svc:{}[]-&*!#"\' \n\tbroker.1') }),
      fc.json(),
    );
    fc.assert(
      fc.property(text, fc.constantFrom('yaml', 'json'), (content, ending) => {
        const cwd = folderWith({ [`svc.config.${ending}`]: content });
        check({}, {}, cwd);
        removeFolders();
      }),
      { numRuns: 300 },
    );
  });

  it('takes every default as a given value', () => {
    const cwd = folderWith();
    for (const option of options.filter(({ default: value }) => value !== undefined)) {
      const { problems } = loadConfig({
        cwd,
        env: {},
        code: { 'svc.broker.topic': 'a', [option.name]: option.default },
      });
      assert.deepEqual(problems, [], option.name);
    }
  });
});
