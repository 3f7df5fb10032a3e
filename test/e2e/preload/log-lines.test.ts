import assert from 'node:assert/strict';
import { plainApp } from '../support/apps.ts';
import { findNode20 } from '../support/old-node.ts';
import { type AppEnd, type AppOptions, endOf } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

type Line = Readonly<Record<string, unknown>>;

const main = `
  function order(id) { return { id }; }
  function refused() { return new Error('x'); }
  order(1);
  refused();
  setTimeout(() => {}, 1200);`;
const target = { module: './main.mjs', function: 'order' };
const json = { log: { format: 'json' } };
/** A cluster that is away, and nothing behind it. */
const lossy = {
  broker: {
    client: 'kafkajs',
    'bootstrap-servers': '127.0.0.1:1',
    'connection-timeout-ms': 200,
    'delivery-timeout-ms': 500,
    backup: { 'local-enabled': false },
  },
  retry: { enabled: false },
};

describe('lines of the log', function () {
  this.timeout(180_000);
  let app: string;

  before('npm install', () => {
    app = plainApp();
  });

  const run = (config: object | string, rest: Partial<AppOptions> = {}): Promise<AppEnd> =>
    endOf({ app, files: { 'main.mjs': main, 'svc.config.json': config }, ...rest });

  function linesOf({ stderr }: AppEnd): Line[] {
    assert.ok(stderr.endsWith('\n'), stderr);
    const lines = stderr
      .slice(0, -1)
      .split('\n')
      .map((line) => JSON.parse(line) as Line);
    for (const { timestamp, severity, logger, message } of lines) {
      assert.ok(!Number.isNaN(Date.parse(String(timestamp))));
      assert.ok(['DEBUG', 'INFO', 'WARN', 'ERROR'].includes(String(severity)), stderr);
      assert.equal(logger, 'svc');
      assert.match(String(message), /^.+$/);
    }
    return lines;
  }
  const saying = (lines: readonly Line[], pattern: RegExp): Line =>
    lines.find(({ message }) => pattern.test(String(message))) ?? assert.fail(JSON.stringify(lines));

  describe('svc.log.format: json', () => {
    it('the report, a refused event, the report at the end', async () => {
      const targets = [target, { ...target, function: 'refused' }, { ...target, function: 'gone' }];
      const lines = linesOf(await run(configOf(targets, { log: { format: 'json', level: 'debug' } })));
      const report = saying(lines, /^capture: 2 of 3 targets patched, 1 failed$/);
      assert.equal((report.details as string[]).length, 3);
      assert.match((report.details as string[])[0] as string, /^patched +main\.mjs#order$/);
      const refused = saying(lines, /^event refused: /);
      assert.deepEqual([refused.severity, refused.code], ['ERROR', 'SVC_PROTECT_UNSUPPORTED_TYPE']);
      assert.equal((saying(lines, /made no event$/).details as string[]).length, 1);
    });

    it('a lost event', async () => {
      const lines = linesOf(await run(configOf([target], { ...lossy, ...json })));
      const { severity, eventType, topic, eventId } = saying(lines, /^event lost: /);
      assert.deepEqual([severity, eventType, topic, typeof eventId], ['ERROR', 'order', 'events', 'string']);
    });

    const wrong = configOf([{ ...target, severity: 'LOUD' }], { broker: { topic: 'a b' } });
    const { svc } = wrong as { svc: object };
    const env = { SVC_LOG_FORMAT: 'json' };
    const cases: readonly [
      what: string,
      config: object | string,
      env: Record<string, string>,
      code: number,
    ][] = [
      ['in the file that is wrong', { svc: { ...svc, ...json } }, {}, 0],
      ['in the environment', wrong, env, 0],
      ['where the process does not start', { svc: { ...svc, ...json, required: true } }, {}, 78],
      ['a file that cannot be parsed', '{ "svc": {\n', env, 0],
    ];
    for (const [what, config, variables, code] of cases)
      it(`problems of the configuration: ${what}`, async () => {
        const end = await run(config, { env: variables });
        const lines = linesOf(end);
        assert.equal(end.code, code);
        saying(lines, /not start/);
        assert.ok(lines.filter(({ severity }) => severity === 'ERROR').length >= 2, end.stderr);
      });

    it('a format that is none: text', async () => {
      const { stderr } = await run(configOf([target], { log: { format: 'xml' } }));
      assert.match(stderr, /^svc: error: svc\.log\.format: .*text.*json/m);
    });

    for (const [what, config, variables] of [
      ['in the environment', {}, env],
      ['in the file', { svc: json }, {}],
    ] as const)
      it(`a Node that is too old, ${what}`, async () => {
        const end = await run(config, { node: await findNode20(), env: variables });
        const [line, ...more] = linesOf(end);
        assert.deepEqual([line?.severity, more], ['ERROR', []]);
        assert.match(String(line?.message), /^needs Node .*\. The application runs without svc$/);
      });
  });

  describe('setLogger', () => {
    const logging = `
      import pino from 'pino';
      import { setLogger } from 'svc';
      setLogger(pino({ name: 'shop' }));`;
    const args = ['--import', './logging.mjs', '--import', 'svc/register', 'main.mjs'];
    const pinoLines = ({ stdout }: AppEnd): Line[] =>
      stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Line);

    it('before svc starts: pino has all lines, with their fields', async () => {
      const files = {
        'main.mjs': main,
        'logging.mjs': logging,
        'svc.config.json': configOf([target], lossy),
      };
      const end = await endOf({ app, files, args });
      assert.equal(end.stderr, '');
      const lines = pinoLines(end).map(({ msg, ...line }) => ({ ...line, message: msg }) as Line);
      for (const { name, logger } of lines) assert.deepEqual([name, logger], ['shop', 'svc']);
      saying(lines, /^configuration .*svc\.config\.json$/);
      assert.deepEqual((saying(lines, /^capture: 1 of 1 targets patched$/) as Line).details, [
        'patched  main.mjs#order',
      ]);
      const { level, eventType, cause } = saying(lines, /^event lost: /);
      assert.deepEqual([level, eventType, typeof cause], [50, 'order', 'string']);
    });

    it('why the process does not start is on standard error, the problems behind it are with pino', async () => {
      const config = configOf([target], { required: true, broker: { topic: 'a b' } });
      const end = await endOf({
        app,
        files: { 'main.mjs': main, 'logging.mjs': logging, 'svc.config.json': config },
        args,
      });
      assert.equal(end.code, 78);
      assert.match(
        end.stderr,
        /^svc: error: svc\.required is true, so the process does not start: the configuration is wrong\n$/,
      );
      assert.ok(
        pinoLines(end).some(({ level, msg }) => level === 50 && /^svc\.broker\.topic: /.test(String(msg))),
      );
    });

    it('later: what came before is on standard error; its own functions are captured, but not for lines of svc', async () => {
      const later = `
        import { setLogger } from 'svc';
        import { write } from './write.mjs';
        const logger = Object.fromEntries(['debug', 'info', 'warn', 'error'].map((level) => [level, (message) => write(level, message)]));
        setLogger(logger);
        logger.info('of the application');
        setTimeout(() => {}, 1200);`;
      const files = {
        'main.mjs': later,
        'write.mjs': `export async function write(level, message) { await null; console.log(message); return { level }; }`,
        'svc.config.json': configOf([{ module: './write.mjs', function: 'write' }], {
          log: { level: 'debug' },
        }),
      };
      const end = await endOf({ app, files });
      assert.match(end.stderr, /^svc: configuration /);
      assert.doesNotMatch(end.stderr, /capture: /);
      assert.match(end.stdout, /^of the application$/m);
      assert.match(end.stdout, /^capture: 1 of 1 targets patched$/m);
      assert.equal(Object.values(end.topics).flat().length, 1, end.stdout);
    });
  });
});
