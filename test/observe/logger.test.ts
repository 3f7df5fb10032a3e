import assert from 'node:assert/strict';
import { consoleLogger } from '../../src/observe/logger.ts';

function loggerWith(level: Parameters<typeof consoleLogger>[0]): {
  logger: ReturnType<typeof consoleLogger>;
  lines: string[];
} {
  const lines: string[] = [];
  return { logger: consoleLogger(level, (line) => lines.push(line)), lines };
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
});
