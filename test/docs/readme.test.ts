import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { readEvents, writeFiles } from '../e2e/support/run-app.ts';
import { temporaryFolder } from '../support/folders.ts';
import { pack } from '../support/packed.ts';

const root = resolve(import.meta.dirname, '../..');
const readme = readFileSync(join(root, 'README.md'), 'utf8');
const run = promisify(execFile);

/** The blocks of the section that a newcomer follows, with the application that they speak of. */
describe('README: add it to your application', function () {
  this.timeout(300_000);
  const section = readme.slice(readme.indexOf('## Add it'), readme.indexOf('## What is guaranteed'));
  const [checkout, scoped, first, start] = [...section.matchAll(/```sh\n([\s\S]*?)```/g)].map(
    ([, block]) => block,
  );
  const yaml = /```yaml\n([\s\S]*?)```/.exec(section)?.[1] as string;
  let folder: string;
  let registry: Server;

  before(() => {
    folder = temporaryFolder('readme');
    mkdirSync(join(folder, 'svc'));
    copyFileSync(pack(), join(folder, 'svc', basename(pack())));
  });
  after(() => {
    registry?.close();
  });

  it('names the file that npm pack makes', () => {
    assert.ok(checkout?.includes(basename(pack())), basename(pack()));
  });

  it('the packed file of the repository', async () => {
    const app = application('from-file');
    await npm(app, installLine(checkout));
    await runsAsWritten(app);
  });

  it('svc init, which a script answers with --yes, leads to the first event', async () => {
    const app = application('from-init');
    rmSync(join(app, 'svc.config.yaml'));
    await npm(app, installLine(checkout));
    const lines = commands(first);
    assert.equal(lines[0], 'npx --no svc init');
    await runsLines(app, ['npx --no svc init --yes', ...lines.slice(1)]);
    const [event] = readEvents(join(app, 'svc-topics'));
    assert.equal(event?.value.eventType, 'ORDER_CREATED');
    assert.deepEqual(event?.value.payload, { orderId: 1, product: 'bicycle' });
  });

  it('one of an own scope, under the alias svc', async () => {
    const app = application('from-registry');
    registry = await scopeRegistry();
    const { port } = registry.address() as AddressInfo;
    writeFiles(app, { '.npmrc': `@your-scope:registry=http://127.0.0.1:${port}/\n` });
    await npm(app, installLine(scoped));
    await runsAsWritten(app);
  });

  function application(name: string): string {
    const app = join(folder, name);
    writeFiles(app, {
      'package.json': JSON.stringify({
        ...{ name: 'orders', version: '1.4.0', private: true, type: 'module' },
        scripts: { start: 'node src/server.ts' },
      }),
      'svc.config.yaml': yaml,
      'src/orders.ts': `
        export interface Order { readonly id: number; readonly product: string }
        export class OrderService {
          async create(order: { readonly product: string }): Promise<Order> {
            return { id: 1, ...order };
          }
        }`,
      'src/server.ts': `
        import { OrderService } from './orders.ts';
        await new OrderService().create({ product: 'bicycle' });`,
    });
    return app;
  }

  /** The commands of the README to the letter; only that there is no Kafka on port 9092 is told svc by its environment. */
  async function runsAsWritten(app: string): Promise<void> {
    await runsLines(app, commands(start));
    const [event, ...more] = readEvents(join(app, 'svc-topics'));
    assert.deepEqual(more, []);
    assert.equal(event?.key, '1');
    assert.deepEqual(event?.value.payload, { orderId: 1, product: 'bicycle' });
  }

  async function runsLines(app: string, lines: readonly string[]): Promise<void> {
    const env = { ...process.env, SVC_BROKER_CLIENT: 'file', MANAGEMENT_SERVER_PORT: '0' };
    for (const line of lines) {
      const [program, ...args] = line.split(' ') as [string, ...string[]];
      await run(program, args, { cwd: app, env, timeout: 60_000 });
    }
  }

  /** A registry with this one package; everything else comes from where npm takes it anyway. */
  async function scopeRegistry(): Promise<Server> {
    const tarball = readFileSync(pack());
    const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    const name = '@your-scope/svc';
    const server = createServer((request, response) => {
      if (request.url?.endsWith('.tgz')) return void response.end(tarball);
      const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
      const dist = { integrity, tarball: `http://${request.headers.host}/svc.tgz` };
      const { version } = manifest;
      const document = {
        name,
        'dist-tags': { latest: version },
        versions: { [version]: { ...manifest, name, dist } },
      };
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(document));
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    return server;
  }
});

function commands(block: string | undefined): string[] {
  const lines = (block ?? '').split('\n').map((line) => line.replace(/\s+#.*$/, '').trim());
  return lines.filter((line) => line !== '');
}

function installLine(block: string | undefined): string {
  const line = commands(block).find((each) => each.startsWith('npm install '));
  assert.ok(line, 'the block has a line npm install');
  return line;
}

async function npm(cwd: string, line: string): Promise<void> {
  const args = [
    ...line.split(' ').slice(1),
    '--no-audit',
    '--no-fund',
    '--prefer-offline',
    '--loglevel=error',
  ];
  await run('npm', args, { cwd, timeout: 240_000 });
}
