import assert from 'node:assert/strict';
import { consoleLogger, inLines } from '../../src/observe/logger.ts';

function loggerWith(level: Parameters<typeof consoleLogger>[0]): {
  logger: ReturnType<typeof consoleLogger>;
  lines: string[];
} {
  const lines: string[] = [];
  return { logger: consoleLogger(level, 'text', (line) => lines.push(line)), lines };
}

describe('consoleLogger', () => {
  it('writes one line with the level and the fields', () => {
    const { logger, lines } = loggerWith('debug');
    logger.debug('a');
    logger.info('b', { count: 2, isOpen: true, name: 'x y', gone: undefined, none: null });
    logger.warn('c');
    logger.error('d', { code: 'E' });
    assert.deepEqual(lines, [
      'svc: debug: a\n',
      'svc: b count=2 isOpen=true name="x y" none=null\n',
      'svc: warn: c\n',
      'svc: error: d code="E"\n',
    ]);
  });

  it('writes a text of several lines as such where it is given as one, and each of them clean', () => {
    const { logger, lines } = loggerWith('info');
    logger.error(...inLines('first\n  second\u001b[2J\n    third', { code: 'E' }));
    assert.deepEqual(lines, ['svc: error: first code="E"\n  second\\u001b[2J\n    third\n']);
  });

  it('escapes what names of others hold, line breaks among it', () => {
    const { logger, lines } = loggerWith('info');
    const name = 'a\nsvc: error: forged\r\u001b[2J\u009b1m\u202e\u2028\ud800';
    logger.warn(`topic "${name}" waits`, { name });
    assert.deepEqual(lines, [
      'svc: warn: topic "a\\u000asvc: error: forged\\u000d\\u001b[2J\\u009b1m\\u202e\\u2028\\ud800" waits' +
        ' name="a\\nsvc: error: forged\\r\\u001b[2J\\u009b1m\\u202e\\u2028\\ud800"\n',
    ]);
  });

  for (const [length, shown] of [
    [1_000, 'x'.repeat(998)],
    [1_001, `${'x'.repeat(499)}…${'x'.repeat(499)}`],
    [1_000_000, `${'x'.repeat(499)}…${'x'.repeat(499)}`],
  ] as const) {
    it(`${length <= 1_000 ? 'leaves' : 'cuts out the middle of'} a text of ${length} characters`, () => {
      const { logger, lines } = loggerWith('info');
      const long = `<${'x'.repeat(length - 2)}>`;
      logger.info(long, { long });
      logger.info(...inLines(`a\n${long}`));
      assert.deepEqual(lines, [`svc: <${shown}> long="<${shown}>"\n`, `svc: a\n<${shown}>\n`]);
    });
  }

  it('leaves out what is below its level', () => {
    for (const [level, count] of [
      ['debug', 4],
      ['info', 3],
      ['warn', 2],
      ['error', 1],
      ['off', 0],
    ] as const) {
      const { logger, lines } = loggerWith(level);
      for (const name of ['debug', 'info', 'warn', 'error'] as const) logger[name](name);
      assert.equal(lines.length, count, level);
    }
  });

  it('writes JSON: one object a line, whatever the message holds', () => {
    const lines: string[] = [];
    const logger = consoleLogger('debug', 'json', (line) => lines.push(line));
    const before = Date.now();
    logger.debug('a');
    logger.info(...inLines('b "c"\u2028\u0085\r\n  first\u001b\n\n  second\n'));
    logger.info('c', { count: 2, none: null, gone: undefined });
    logger.warn('d\ng', { code: 'e\u2029\nf', long: 'x'.repeat(1_001) });
    logger.error('\ud800');
    assert.equal(lines.length, 5);
    for (const line of lines)
      assert.deepEqual([line.split(/[\r\n\u0085\u2028\u2029]/).length, line.at(-1)], [2, '\n']);
    const parsed = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    for (const { timestamp } of parsed) {
      assert.match(String(timestamp), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      const at = Date.parse(String(timestamp));
      assert.ok(at >= before && at <= Date.now());
    }
    assert.deepEqual(
      parsed.map(({ timestamp, ...rest }) => rest),
      [
        { severity: 'DEBUG', message: 'a', logger: 'svc' },
        {
          severity: 'INFO',
          message: 'b "c"\\u2028\\u0085\\u000d',
          logger: 'svc',
          details: ['first\\u001b', 'second'],
        },
        { severity: 'INFO', message: 'c', logger: 'svc', count: 2, none: null },
        {
          severity: 'WARN',
          message: 'd\\u000ag',
          logger: 'svc',
          code: 'e\\u2029\\u000af',
          long: `${'x'.repeat(500)}…${'x'.repeat(500)}`,
        },
        { severity: 'ERROR', message: '\\ud800', logger: 'svc' },
      ],
    );
  });

  it('lets the compiler find fields that JSON lines have anyway', () => {
    const { logger, lines } = loggerWith('info');
    // @ts-expect-error it would take the place of the message
    logger.info('a', { message: 'b' });
    assert.equal(lines.length, 1);
  });
});
