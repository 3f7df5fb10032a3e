import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { hostEnvironment, writeFiles } from '../../e2e/support/run-app.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { runSvc } from '../../support/run-svc.ts';

const main = resolve(import.meta.dirname, '../../../src/cli/main.ts');
const manifest = `{\n\t"name": "@acme/shop",\n\t"type": "module",\n\t"scripts": { "start": "node src/server.ts" }\n}\n`;
const files = {
  'package.json': manifest,
  'src/server.ts': "import './orders.ts';",
  'src/orders.ts': `
    export async function createOrder(order: { product: string; email: string }) { return { id: 1, ...order }; }
    export function cancelOrder(id: number) {}`,
  'src/unused.ts': 'export function deleteOrder(id: number) {}',
};

describe('svc init', function () {
  this.timeout(120_000);
  let folder: string;
  const svc = (...args: string[]) => runSvc(args, { cwd: folder });
  const read = (name: string) => readFileSync(join(folder, name), 'utf8');
  beforeEach(() => {
    folder = temporaryFolder('init');
    writeFiles(folder, files);
  });

  it('writes what it found and svc check accepts, a script, and nothing a second time', async () => {
    const { code, stdout, stderr } = await svc('init', '--yes', '--broker', 'localhost:9092');
    assert.deepEqual([code, stdout], [0, ''], stderr);
    const text = read('svc.config.yaml');
    assert.match(
      text,
      /^# yaml-language-server: \$schema=\.\/node_modules\/svc\/svc\.config\.schema\.json\n/,
    );
    assert.match(text, /^ {4}bootstrap-servers: \[localhost:9092\]\n {4}topic: shop\.events\.v1\n/m);
    assert.match(text, /payload: "\{ orderId: #result\.id, product: #order\.product \}"\n.*takes: email\n/);
    const written = manifest.replace(
      '{ "start": "node src/server.ts" }',
      '{\n\t\t"start": "node src/server.ts",\n\t\t"start:svc": "node --import svc/register src/server.ts"\n\t}',
    );
    assert.equal(read('package.json'), written);

    const check = await svc('check', '--json');
    assert.equal(check.code, 0, check.stdout);
    const { targets } = JSON.parse(check.stdout) as { targets: { id: string; state: string }[] };
    assert.deepEqual(
      targets.map(({ id, state }) => [id, state]),
      [
        ['src/orders.ts#createOrder', 'found'],
        ['src/orders.ts#cancelOrder', 'found'],
      ],
    );

    const again = await svc('init', '--yes', '--topic', 'other');
    assert.equal(again.code, 1);
    assert.match(again.stderr, /is there already: nothing was written; --force replaces it\n$/);
    assert.equal(read('svc.config.yaml'), text);
    const replaced = await svc('init', '--yes', '--topic', 'other', '--force');
    assert.equal(replaced.code, 0);
    assert.match(replaced.stderr, /package\.json stays as it is\nnext:\n.* doctor\n {2}npm run start:svc\n$/);
    assert.match(read('svc.config.yaml'), /topic: other\n/);
  });

  it('takes targets by name, and tells scripts as JSON what it wrote', async () => {
    const { code, stdout } = await svc(
      ...['init', '--target', './src/orders.ts#createOrder=ORDER_PLACED', '--no-script', '--json'],
    );
    assert.equal(code, 0);
    const { ok, script, targets } = JSON.parse(stdout) as Record<string, unknown>;
    const payload = '{ orderId: #result.id, product: #order.product }';
    assert.deepEqual(
      { ok, script, targets },
      {
        ok: true,
        script: null,
        targets: [
          {
            module: './src/orders.ts',
            function: 'createOrder',
            eventType: 'ORDER_PLACED',
            payload,
            key: '#result.id',
          },
        ],
      },
    );
    assert.equal(read('package.json'), manifest);
  });

  for (const [title, args, says] of [
    [
      'asks nobody without a terminal',
      [],
      /no terminal to ask on: give --yes .*--target '\.\/src\/orders\.ts#createOrder=ORDER_CREATED'/,
    ],
    [
      'a function that is not there',
      ['--target', './src/orders.ts#createOrdr=A'],
      /no createOrdr in this file \(did you mean createOrder\?\)/,
    ],
    [
      'a file that is not there',
      ['--target', './src/order.ts#createOrder'],
      /--target \.\/src\/order\.ts#createOrder: /,
    ],
    ['no target', ['--target', 'createOrder'], /--target takes <module>#<function>/],
    ['a broker without a port', ['--yes', '--broker', 'localhost'], /brokers are host:port/],
    ['a topic that Kafka does not take', ['--yes', '--topic', 'a b'], /a topic has letters/],
  ] as const)
    it(`${title}: says so and writes nothing`, async () => {
      const { code, stdout, stderr } = await svc('init', ...args);
      assert.deepEqual([code, stdout], [2, '']);
      assert.match(stderr, says);
      assert.deepEqual(readdirSync(folder).sort(), ['package.json', 'src']);
      assert.equal(read('package.json'), manifest);
    });

  it('a configuration of another form stays the only one', async () => {
    writeFiles(folder, { 'svc.config.json': '{}' });
    const { code, stderr } = await svc('init', '--yes', '--force');
    assert.equal(code, 1);
    assert.match(stderr, /svc\.config\.json is the configuration here already/);
    assert.equal(existsSync(join(folder, 'svc.config.yaml')), false);
  });

  it('on a terminal: what is ticked is written', async () => {
    const { code, screen } = await onTerminal(folder, [
      [/become events/, ' \r'],
      [/Brokers of Kafka/, '\r'],
      [/Topic of the events/, '\r'],
      [/Add "start:svc"/, '\r'],
    ]);
    assert.equal(code, 0, screen);
    assert.match(read('svc.config.yaml'), /function: createOrder\n/);
    assert.doesNotMatch(read('svc.config.yaml'), /cancelOrder/);
    assert.match(read('package.json'), /start:svc/);
  });

  for (const [title, answers] of [
    ['at the first question', [[/become events/, '\u0003']]],
    [
      'at the last one',
      [
        [/become events/, ' \r'],
        [/Brokers of Kafka/, '\r'],
        [/Topic of the events/, '\r'],
        [/Add "start:svc"/, '\u0003'],
      ],
    ],
  ] as const)
    it(`Ctrl-C ${title} leaves all as it was, and says so`, async () => {
      const { code, screen } = await onTerminal(folder, answers);
      assert.equal(code, 1, screen);
      assert.match(screen, /stopped on request: nothing was written/);
      assert.deepEqual(readdirSync(folder).sort(), ['package.json', 'src']);
      assert.equal(read('package.json'), manifest);
    });
});

/** Types each answer when its question is on the screen. */
function onTerminal(
  cwd: string,
  answers: readonly (readonly [question: RegExp, keys: string])[],
  columns = 40,
): Promise<{ code: number | null; screen: string }> {
  const command = `stty cols ${columns} rows 24; '${process.execPath}' '${main}' init`;
  const child = spawn('script', ['-qec', command, '/dev/null'], {
    ...{ cwd, env: { ...hostEnvironment(), TERM: 'xterm', CI: '' }, stdio: ['pipe', 'pipe', 'inherit'] },
  });
  const waiting = [...answers];
  let screen = '';
  let seen = 0;
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    screen += text;
    const [next] = waiting;
    if (next === undefined || !next[0].test(screen.slice(seen))) return;
    waiting.shift();
    seen = screen.length;
    for (const [at, key] of [...next[1]].entries()) setTimeout(() => child.stdin?.write(key), 100 * (at + 1));
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), 60_000);
  return new Promise((done) =>
    child.once('close', (code) => {
      clearTimeout(timer);
      done({ code, screen });
    }),
  );
}
