import assert from 'node:assert/strict';
import { Console } from 'node:console';
import { Writable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import pino from 'pino';
import { isOwnWork } from '../../src/ground/lifecycle.ts';
import { consoleLogger, inLines, type SvcLogger, setLogger } from '../../src/observe/logger.ts';

function textOf(chunks: string[]): Writable {
  return new Writable({
    write(chunk, _, done) {
      chunks.push(String(chunk));
      done();
    },
  });
}

/** A logger with these functions, and silent ones for the rest. */
function loggerWith(functions: Partial<SvcLogger>): SvcLogger {
  return { debug() {}, info() {}, warn() {}, error() {}, ...functions };
}

describe('setLogger', () => {
  let stderr: string[];
  let takeBack: () => void = () => {};
  const use = (logger: Parameters<typeof setLogger>[0]): void => {
    takeBack = setLogger(logger);
  };
  const svcLogger = (level: 'debug' | 'info' = 'info'): ReturnType<typeof consoleLogger> =>
    consoleLogger(level, 'text', (line) => stderr.push(line));

  beforeEach(() => {
    stderr = [];
  });
  afterEach(() => takeBack());

  it('pino gets message, level and fields', () => {
    const lines: string[] = [];
    use(pino({ base: null, timestamp: false }, textOf(lines)));
    svcLogger().warn('event kept', { eventId: '7', events: 2, gone: undefined });
    svcLogger().info(...inLines('capture: 1 of 1 targets patched\n  patched  a.js#b'));
    svcLogger().warn('topic "a\n\u001b[2J"', { topic: `a\n${'x'.repeat(1_000)}` });
    assert.deepEqual(
      lines.map((line) => JSON.parse(line)),
      [
        { level: 40, logger: 'svc', eventId: '7', events: 2, msg: 'event kept' },
        { level: 30, logger: 'svc', details: ['patched  a.js#b'], msg: 'capture: 1 of 1 targets patched' },
        {
          level: 40,
          logger: 'svc',
          topic: `a\\u000a${'x'.repeat(498)}…${'x'.repeat(500)}`,
          msg: 'topic "a\\u000a\\u001b[2J"',
        },
      ],
    );
    assert.deepEqual(stderr, []);
  });

  it('all others get the message, then the fields, as methods of their object', () => {
    class Winston implements SvcLogger {
      readonly seen: unknown[] = [];
      #say(level: string, args: unknown[]): this {
        this.seen.push([level, ...args]);
        return this;
      }
      debug(...args: unknown[]) {
        return this.#say('debug', args);
      }
      info(...args: unknown[]) {
        return this.#say('info', args);
      }
      warn(...args: unknown[]) {
        return this.#say('warn', args);
      }
      error(...args: unknown[]) {
        return this.#say('error', args);
      }
    }
    const winston = new Winston();
    use(winston);
    const logger = svcLogger();
    for (const level of ['debug', 'info', 'warn', 'error'] as const)
      logger[level](level, { code: 'E', gone: undefined });
    // `debug` is below the level of svc itself.
    assert.deepEqual(
      winston.seen,
      ['info', 'warn', 'error'].map((level) => [level, level, { logger: 'svc', code: 'E' }]),
    );
  });

  it('a console', () => {
    const lines: string[] = [];
    use(new Console(textOf(lines)));
    svcLogger().info('started', { events: 2 });
    assert.deepEqual(lines, ["started { logger: 'svc', events: 2 }\n"]);
  });

  it('the last one counts, and what one returns takes back only that one', () => {
    const seen: string[] = [];
    const back = setLogger(loggerWith({ info: (message) => seen.push(`first ${message}`) }));
    svcLogger().info('a');
    use(loggerWith({ info: (message) => seen.push(`second ${message}`) }));
    back();
    svcLogger().info('b');
    takeBack();
    svcLogger().info('c');
    assert.deepEqual([seen, stderr], [['first a', 'second b'], ['svc: c\n']]);
  });

  it('refuses what is no logger, and names what is missing', () => {
    const wrong: readonly [given: unknown, missing: string][] = [
      [undefined, 'debug, info, warn, error'],
      [null, 'debug, info, warn, error'],
      ['console', 'debug, info, warn, error'],
      [{ log() {}, error() {}, warn() {}, debug() {} }, 'info'],
      [{ ...loggerWith({}), debug: true }, 'debug'],
    ];
    for (const [given, missing] of wrong)
      assert.throws(() => setLogger(given as SvcLogger), {
        code: 'SVC_OBSERVE_LOGGER',
        message: `not a logger: it has no function ${missing}`,
      });
    svcLogger().info('as before');
    assert.deepEqual(stderr, ['svc: as before\n']);
  });

  const said = 'svc: warn: the logger of setLogger failed; svc writes its lines here\n';
  const failing: readonly [what: string, logger: SvcLogger][] = [
    [
      'throws',
      loggerWith({
        error() {
          throw new Error('full');
        },
      }),
    ],
    ['rejects', loggerWith({ error: async () => Promise.reject(new Error('full')) })],
  ];
  for (const [what, logger] of failing)
    it(`one that ${what}: its lines go to standard error, and that is said once`, async () => {
      use(logger);
      svcLogger().error('lost', { events: 1 });
      svcLogger().error('lost', { events: 2 });
      await setImmediate();
      assert.deepEqual(stderr, [said, 'svc: error: lost events=1\n', 'svc: error: lost events=2\n']);
    });

  it('one that has lost a function since', () => {
    const logger = loggerWith({});
    use(logger);
    (logger as Partial<SvcLogger>).info = undefined as never;
    svcLogger().info('a');
    assert.deepEqual(stderr, [said, 'svc: a\n']);
  });

  it('what it calls is work of svc, now and later, and no call of the application is', async () => {
    const seen: boolean[] = [];
    use(
      loggerWith({
        async info() {
          seen.push(isOwnWork());
          await setImmediate();
          seen.push(isOwnWork());
        },
      }),
    );
    svcLogger().info('a');
    seen.push(isOwnWork());
    await setImmediate();
    await setImmediate();
    assert.deepEqual(seen, [true, false, true]);
  });

  it('a line said while it writes one goes to standard error', () => {
    const seen: string[] = [];
    const logger = svcLogger('debug');
    use(
      loggerWith({
        info(message) {
          seen.push(message);
          logger.debug('within');
        },
        debug: () => assert.fail('not while it writes'),
      }),
    );
    logger.info('a');
    logger.info('b');
    assert.deepEqual(
      [seen, stderr],
      [
        ['a', 'b'],
        ['svc: debug: within\n', 'svc: debug: within\n'],
      ],
    );
  });
});
