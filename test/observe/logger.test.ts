import assert from 'node:assert/strict';
import { consoleLogger } from '../../src/observe/logger.ts';

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

  it('puts the fields behind the first line of a message', () => {
    const { logger, lines } = loggerWith('info');
    logger.error('first\n  second', { code: 'E' });
    assert.deepEqual(lines, ['svc: error: first code="E"\n  second\n']);
  });

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
    logger.info('b "c"\u2028\u0085\r\n  first\n\n  second\n', { count: 2, none: null, gone: undefined });
    logger.warn('d', { code: 'e\u2029\nf' });
    logger.error('\ud800');
    assert.equal(lines.length, 4);
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
          message: 'b "c"\u2028\u0085\r',
          logger: 'svc',
          count: 2,
          none: null,
          details: ['first', 'second'],
        },
        { severity: 'WARN', message: 'd', logger: 'svc', code: 'e\u2029\nf' },
        { severity: 'ERROR', message: '\ud800', logger: 'svc' },
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
