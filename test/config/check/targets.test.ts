import assert from 'node:assert/strict';
import type { TargetConfig } from '../../../src/config/schema/target.ts';
import { lines, loadCode, loadYaml, removeFolders } from '../config-folder.ts';

const good = { module: './src/orders.ts', function: 'createOrder' };

/** The problems of a list with this one target. */
function problemsOf(target: unknown): string[] {
  const { targets, targetProblems } = {
    ...loadCode({ targets: [target] }),
    targets: loadCode({ targets: [target] }).config.targets,
  };
  assert.equal(targets.length + targetProblems.length, 1);
  return lines(targetProblems.flatMap(({ problems }) => problems));
}

describe('targets', () => {
  afterEach(removeFolders);

  it('have the documented defaults', () => {
    const { config, targetProblems } = loadCode({ targets: [good] });
    const expected: TargetConfig = {
      id: 'src/orders.ts#createOrder',
      index: 0,
      module: './src/orders.ts',
      function: 'createOrder',
      eventType: undefined,
      severity: 'INFO',
      topic: undefined,
      payload: undefined,
      payloadIndex: -1,
      when: undefined,
      key: undefined,
      headers: undefined,
      callback: undefined,
      outbox: undefined,
      afterCommit: false,
      phase: 'AFTER_RETURNING',
      failOnError: false,
      pii: undefined,
      params: undefined,
      where: 'code',
    };
    assert.deepEqual([{ ...config.targets[0] }, targetProblems], [expected, []]);
  });

  it('take every field, in both spellings', () => {
    const payload = () => 1;
    const fields = {
      eventType: 'ORDER_CREATED',
      severity: 'critical',
      topic: 'a',
      payload,
      when: '#result != null',
      key: '#result.id',
      callback: 'LAST',
      headers: { tenant: '#args[0].tenant' },
      phase: 'AFTER',
      failOnError: true,
      params: 'a, b',
    };
    const kebab = { 'event-type': 'ORDER_CREATED', 'fail-on-error': true, 'payload-index': 3 };
    const [one, two] = loadCode({
      targets: [
        { ...good, ...fields },
        { ...good, function: 'b', ...kebab },
      ],
    }).config.targets;
    assert.deepEqual(
      { ...one },
      { ...one, ...fields, severity: 'CRITICAL', callback: 'last', params: ['a', 'b'], payloadIndex: -1 },
    );
    assert.deepEqual([two?.eventType, two?.failOnError, two?.payloadIndex], ['ORDER_CREATED', true, 3]);
  });

  it('do not spoil each other', () => {
    const loaded = loadYaml(`
svc:
  broker: { topic: orders }
  targets:
    - { module: ./a.ts, function: one }
    - module: ./a.ts
      functoin: two
      payload: 7
    - 7
    - { module: ./a.ts, function: three }
`);
    assert.deepEqual(loaded.problems, []);
    const found = loaded.config.targets.map(({ id, index, where }) => `${index} ${id} ${where}`);
    assert.deepEqual(found, ['0 a.ts#one svc.config.yaml:5', '3 a.ts#three svc.config.yaml:10']);
    assert.deepEqual(
      loaded.targetProblems.map(({ index, id, problems }) => [index, id, lines(problems)]),
      [
        [
          1,
          'a.ts#?',
          [
            'svc.targets[1].functoin: is not a known field of a target (svc.config.yaml:6). Did you mean function?',
            'svc.targets[1].payload: must be a string or a function, got 7 (number) (svc.config.yaml:6). Put it in quotes.',
            'svc.targets[1].function: is required (svc.config.yaml:6).',
          ],
        ],
        [
          2,
          '?#?',
          [
            'svc.targets[2]: must be an object, got a number (svc.config.yaml:9). Write an entry with module and function.',
          ],
        ],
      ],
    );
  });

  it('must be a list', () => {
    assert.deepEqual(lines(loadCode({ targets: good }).problems), [
      'svc.targets: must be a list, got an object (code). Write one entry with module and function for each function to capture.',
    ]);
    assert.deepEqual(loadCode({ targets: [] }).problems, []);
    assert.deepEqual(loadCode({ targets: null }).problems, []);
  });

  it('have limits', () => {
    const index = (payloadIndex: number) => problemsOf({ ...good, payloadIndex });
    assert.deepEqual([index(-1), index(254)], [[], []]);
    assert.match(
      index(-2)[0] ?? '',
      /payloadIndex must be at least -1, got -2 \(code\)\. Allowed: -1 to 254, default -1\.$/,
    );
    assert.match(index(255)[0] ?? '', /payloadIndex must be at most 254, got 255/);
    assert.deepEqual(problemsOf({ ...good, topic: 'a'.repeat(249) }), []);
    assert.match(
      problemsOf({ ...good, topic: 'a'.repeat(250) })[0] ?? '',
      /^svc\.targets\[0\]\.topic: must be a topic name/,
    );
    assert.match(
      problemsOf({ ...good, module: ' ' })[0] ?? '',
      /^svc\.targets\[0\]\.module: must not be empty/,
    );
    assert.match(problemsOf({ ...good, module: null })[0] ?? '', /^svc\.targets\[0\]\.module: is required/);
    assert.deepEqual(problemsOf({ ...good, severity: 'FATAL' }), [
      'svc.targets[0].severity: must be one of INFO, WARN, ERROR, CRITICAL, got a string (code).',
    ]);
    assert.deepEqual(problemsOf({ ...good, phase: 'AFTER_RETURN' }), [
      'svc.targets[0].phase: must be one of BEFORE, AFTER_RETURNING, AFTER, got a string (code). Did you mean AFTER_RETURNING?',
    ]);
    assert.deepEqual(problemsOf({ ...good, failOnError: 'yes' }), [
      'svc.targets[0].failOnError: must be true or false, got a string (code).',
    ]);
    assert.deepEqual(problemsOf({ ...good, params: [''] }), [
      'svc.targets[0].params: item 1 must not be empty, got an empty string (code).',
    ]);
  });

  it('name each function once, however the path is written', () => {
    const { config, targetProblems } = loadCode({
      targets: [good, { module: 'src\\orders.ts', function: 'createOrder' }, { ...good, function: 'other' }],
    });
    assert.deepEqual(
      config.targets.map(({ index }) => index),
      [0, 2],
    );
    assert.deepEqual(lines(targetProblems[0]?.problems ?? []), [
      'svc.targets[1]: is the same function as svc.targets[0] (code). Keep one of them.',
    ]);
  });

  it('give a field once', () => {
    assert.deepEqual(problemsOf({ ...good, eventType: 'a', 'event-type': 'a' }), [
      'svc.targets[0].event-type: is given twice, as eventType and as event-type (code). Keep one of them.',
    ]);
  });

  it('that ask for no outbox have none', () => {
    assert.deepEqual(problemsOf({ ...good, pii: false, outbox: false }), []);
    assert.equal(loadCode({ targets: [{ ...good, outbox: false }] }).config.targets[0]?.outbox, undefined);
  });

  it('that cannot mean what they say get a warning', () => {
    const warningsOf = (target: object) => lines(loadCode({ targets: [{ ...good, ...target }] }).warnings);
    assert.deepEqual(warningsOf({ payload: '#p0', payloadIndex: 1 }), [
      'svc.targets[0]: has both payload and payloadIndex; svc uses payload (code). Keep one of them.',
    ]);
    assert.deepEqual(warningsOf({ phase: 'BEFORE' }), [
      'svc.targets[0]: makes its event before the function returns: its payload is always null (code). Set payload or payloadIndex.',
    ]);
    assert.deepEqual(warningsOf({ phase: 'BEFORE', payloadIndex: 0 }), []);
  });

  it('that cannot be read leave the rest alone', () => {
    const target = {
      get module() {
        throw new RangeError('hunter2');
      },
    };
    assert.deepEqual(lines(loadCode({ targets: [target] }).problems), [
      'svc.targets: cannot be read: RangeError. Use plain objects and values.',
    ]);
  });

  it('are named with the field that is none, unless it looks like something else', () => {
    const nameOf = (field: string) =>
      loadCode({ targets: [{ module: './a.ts', function: 'b', [field]: 1 }] }).targetProblems[0]?.problems[0]
        ?.name;
    assert.equal(nameOf('colour'), 'svc.targets[0].colour');
    assert.equal(nameOf('retry-queue'), 'svc.targets[0].retry-queue');
    for (const other of ['hunter2', 'pass word', `${'a'.repeat(41)}`, '\u202ekey'])
      assert.equal(nameOf(other), 'svc.targets[0].?');
  });
});
