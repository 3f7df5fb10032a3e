import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { cpSync, existsSync, globSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { basename, delimiter, dirname, join, resolve, sep } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePorts } from '../../../scripts/services/ports.ts';
import { type Dependencies, installPacked, pack } from '../../support/packed.ts';
import { startPostgres } from '../../support/postgres.ts';
import { requiring } from '../../support/requires.ts';
import { freshFolder, hostEnvironment, type PublishedEvent, readEvents } from '../support/run-app.ts';
import { subject } from '../support/subject.ts';

// Every folder of examples/ runs by the commands of its README, with the packed svc, and shows what the README shows. A new
// example is tested by being there.
const tested = await subject();
const root = resolve(import.meta.dirname, '../../..');
const names = readdirSync(join(root, 'examples'));
const timeoutMs = 60_000;

interface Manifest {
  readonly scripts: Readonly<Record<string, string>>;
  readonly dependencies: Dependencies;
  readonly devDependencies?: Dependencies;
}

type Ask = readonly [method: string, path: string, body: object | undefined, status: number];

/** Topic, type and key; where they are given, the payload, and who is said to have done it. */
type Expected = readonly [topic: string, type: string, key: string, payload?: object, userId?: string | null];

/** What is asked for after the commands of a README, and all events in the end. Left out: the README says it all. */
const more: Readonly<Record<string, { asks?: readonly Ask[]; events: readonly Expected[] }>> = {
  express: {
    asks: [
      ['POST', '/parcels', { recipient: 'Bob', grams: 30_001 }, 400],
      ['POST', '/parcels/1/delivery', undefined, 200],
      ['POST', '/parcels/1/delivery', undefined, 400],
    ],
    events: [
      [
        ...(['parcels.events.v1', 'PARCEL_POSTED', '1'] as const),
        { id: 1, recipient: 'Cl****', grams: 300, status: 'POSTED' },
        'u-17',
      ],
      ['parcels.events.v1', 'PARCEL_DELIVERED', '1', { id: 1, grams: 300, status: 'DELIVERED' }, 'u-17'],
    ],
  },
  fastify: {
    asks: [
      ['POST', '/invoices', { customer: 'Acme', iban: 'DE89370400440532013000', cents: 0 }, 400],
      ['POST', '/invoices/1/payment', undefined, 200],
      ['POST', '/invoices/2/payment', undefined, 500],
    ],
    events: [
      [
        ...(['invoices.events.v1', 'INVOICE_ISSUED', '1'] as const),
        { id: 1, customer: 'Acme', iban: 'DE89****', cents: 1999, paid: 0 },
        'u-3',
      ],
      ['invoices.events.v1', 'INVOICE_PAID', '1', { id: 1, cents: 1999 }, 'u-3'],
    ],
  },
  nestjs: {
    asks: [
      ['POST', '/bookings', { room: 7, day: '2027-01-05' }, 409],
      ['DELETE', '/bookings/1', undefined, 200],
      ['DELETE', '/bookings/x', undefined, 400],
    ],
    events: [
      ['rooms.events.v1', 'ROOM_BOOKED', '7', { id: 1, room: 7, day: '2027-01-05', guest: 'A****' }, 'u-17'],
      ['rooms.events.v1', 'BOOKING_CANCELLED', '7', { id: 1, room: 7, day: '2027-01-05' }, 'u-17'],
    ],
  },
  orders: {
    asks: [
      ['POST', '/orders', { customer: 'Bob', email: 'bob@example.com', product: 'bell', quantity: 0 }, 400],
      ['POST', '/orders/1/cancel', { reason: 'ordered twice' }, 200],
    ],
    events: [
      ['orders.events.v1', 'ORDER_CREATED', '1'],
      [
        'orders.events.v1',
        'ORDER_CANCELLED',
        '1',
        { orderId: 1, reason: 'ordered twice', status: 'CANCELLED' },
      ],
      ['orders.events.v1', 'ORDER_STATUS_CHANGED', '*', { orderId: 1, status: 'CANCELLED' }],
      ['stock.events.v1', 'STOCK_RESERVED', 'bicycle', { product: 'bicycle', reserved: 1 }],
    ],
  },
  shop: {
    events: [
      ['shop.orders.v1', 'ORDER_PLACED', '1'],
      ['shop.orders.v1', 'ORDER_PLACED', '2'],
      ['shop.stock.v1', 'STOCK_RESERVED', 'bicycle'],
      ['shop.stock.v1', 'STOCK_RESERVED', 'helmet'],
    ],
  },
  tickets: {
    events: [
      ['tickets.concerts.v1', 'TICKETS_TAKEN', 'Night of the Proms'],
      ['tickets.concerts.v1', 'TICKETS_TAKEN', 'Night of the Proms'],
      ['tickets.orders.v1', 'TICKETS_ORDERED', '1'],
      ['tickets.orders.v1', 'TICKETS_ORDERED', '3'],
    ],
  },
  workers: {
    asks: [
      ['POST', '/', { meter: 'M-2', kwh: 1 }, 201],
      ['POST', '/', { meter: 'M-1', kwh: -1 }, 400],
    ],
    events: [
      ['meters.readings.v1', 'METER_READ', 'M-1', { id: 1, meter: 'M-1', kwh: 3.5 }, null],
      ['meters.readings.v1', 'METER_READ', 'M-2', { id: 2, meter: 'M-2', kwh: 1 }, null],
      ['meters.sums.v1', 'METER_SUM', 'M-1', { meter: 'M-1', sum: 3.5 }, null],
      ['meters.sums.v1', 'METER_SUM', 'M-2', { meter: 'M-2', sum: 1 }, null],
    ],
  },
};

const manifestOf = (name: string): Manifest =>
  JSON.parse(readFileSync(join(root, 'examples', name, 'package.json'), 'utf8'));
const packagesOf = ({ dependencies, devDependencies }: Manifest): Dependencies => ({
  ...dependencies,
  ...devDependencies,
});
/** Next.js takes the folder that has node_modules for the root of the project: it runs there. */
const isAlone = (name: string): boolean => 'next' in manifestOf(name).dependencies;

/** Its files, without what runs have made. */
const filesOf = (name: string): string[] =>
  globSync('**/*', { cwd: join(root, 'examples', name), withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => !/[\\/](?:node_modules|svc-topics|dist|\.next)[\\/]|\.db|\.tgz$/.test(file));

/** One installation for all, with the packages of each: what each imports is compared with its own package.json. */
function installed(name: string): string {
  if (isAlone(name)) return realpathSync(installPacked('nextjs', packagesOf(manifestOf(name))));
  const all: Record<string, string> = {};
  for (const each of names.filter((other) => !isAlone(other)))
    for (const [dependency, range] of Object.entries(packagesOf(manifestOf(each)))) {
      assert.equal(range, all[dependency] ?? range, `examples/${each} and another one: ${dependency}`);
      all[dependency] = range;
    }
  return installPacked('examples', all);
}

/** A block of commands, and the lines that they print. */
interface Step {
  readonly commands: readonly string[];
  readonly output: readonly string[];
}

function stepsOf(readme: string): Step[] {
  const blocks = [...readme.matchAll(/```sh\n([\s\S]*?)```(?:\s*```text\n([\s\S]*?)```)?/g)];
  const lines = (text: string): string[] => text.trim().split('\n').filter(Boolean);
  return blocks.map(([, commands = '', output = '']) => ({
    commands: lines(commands),
    output: lines(output),
  }));
}

/** `…` is any text, a time any other one, and spaces any number of them. */
function patternOf(line: string): RegExp {
  const parts = line.split(/(…|\d{4}-\d\d-\d\dT[\d:.]+Z|\s+)/).map((part, index) => {
    if (index % 2 === 0) return part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    return part === '…' ? '.*' : part.trim() === '' ? '\\s+' : '\\S+';
  });
  return new RegExp(parts.join(''));
}

for (const name of names) {
  const manifest = manifestOf(name);
  const readme = readFileSync(join(root, 'examples', name, 'README.md'), 'utf8');

  describe(`examples/${name}`, function () {
    this.timeout(60_000); // The first one packs svc.
    it('imports nothing from outside its folder but the packages that its package.json names', () => {
      const packages = Object.keys(packagesOf(manifest)).map((each) => each.replace(/^@types\//, ''));
      assert.equal(manifest.dependencies.svc, `file:${basename(pack())}`);
      for (const file of filesOf(name).filter((each) => /\.[cm]?[jt]sx?$/.test(each))) {
        const text = readFileSync(file, 'utf8');
        for (const [, specifier = ''] of text.matchAll(
          /(?:\bfrom|\bimport|import\(|new URL\()\s*'([^']+)'/g,
        )) {
          if (isBuiltin(specifier)) continue;
          const inside = join(root, 'examples', name) + sep;
          if (specifier.startsWith('.'))
            assert.ok(resolve(dirname(file), specifier).startsWith(inside), specifier);
          else
            assert.ok(
              packages.some((each) => `${specifier}/`.startsWith(`${each}/`)),
              specifier,
            );
        }
      }
      for (const file of ['svc.config.yaml', 'README.md', 'package.json'])
        assert.doesNotMatch(
          readFileSync(join(root, 'examples', name, file), 'utf8')
            .replaceAll('npm pack -s ../..', '')
            .replaceAll('`../..`', ''),
          /\.\.\//,
          file,
        );
    });

    it('names svc in as many lines of its source as its README says: in none or one', () => {
      const own = filesOf(name)
        .filter((file) => /\.[cm]?[jt]sx?$/.test(file) && !/[\\/]test[\\/]/.test(file))
        .flatMap((file) => readFileSync(file, 'utf8').split('\n'))
        .filter((line) => /['"]svc/.test(line)).length;
      const says = readme.replace(/\s+/g, ' ');
      assert.match(says, own === 0 ? /No line of `src\/` mentions svc/ : /[Oo]ne line/);
      assert.ok(own <= 1);
    });

    it('has a README with its commands and their output, and settings with comments', () => {
      const [install, ...steps] = stepsOf(readme);
      assert.deepEqual(install?.commands, ['npm pack -s ../.. && npm install']);
      assert.ok(steps.length >= 2);
      for (const { commands, output } of steps) assert.ok(output.length > 0, commands.join());
      const config = readFileSync(join(root, 'examples', name, 'svc.config.yaml'), 'utf8');
      assert.ok(config.split('\n').filter((line) => line.includes('# ')).length >= 5);
    });
  });

  // TypeScript that Node runs itself.
  if (tested.stripsTypes) runs(name, manifest, readme);
}

function runs(name: string, { scripts }: Manifest, readme: string): void {
  const needsDatabase = readme.includes('DATABASE_URL');
  const suite = needsDatabase
    ? (title: string, body: () => void) => requiring('postgres', title, body)
    : describe;
  suite(`examples/${name}, by its README`, function (this: Mocha.Suite) {
    this.timeout(300_000);
    let folder: string;
    let env: NodeJS.ProcessEnv;
    let query: (statement: string) => Promise<Record<string, unknown>[]>;
    let port: string;
    const started: Started[] = [];

    before('npm install', async () => {
      const app = installed(name);
      folder = isAlone(name) ? app : freshFolder(app, name);
      for (const made of ['.next', 'svc-topics', 'instrumentation.ts'])
        rmSync(join(folder, made), { recursive: true, force: true });
      const from = join(root, 'examples', name);
      for (const file of filesOf(name)) {
        const path = file.slice(from.length + 1);
        // npm install has made another package.json there, with the same packages.
        if (!isAlone(name) || path !== 'package.json') cpSync(file, join(folder, path));
      }
      const ports = (await freePorts(2)).map(String) as [string, string];
      port = ports[0];
      const path = [join(app, 'node_modules/.bin'), dirname(tested.node), process.env.PATH].join(delimiter);
      env = { ...hostEnvironment(), PATH: path, PORT: port, MANAGEMENT_SERVER_PORT: ports[1], NO_COLOR: '1' };
      if (!needsDatabase) return;
      const server = await startPostgres();
      const url = await server.freshDatabase();
      query = (statement) => server.query(url, statement);
      env.DATABASE_URL = url;
    });
    after(() => Promise.all(started.map((each) => each.end())));

    /** Runs a line of the README as npm would; what keeps running is left running. */
    async function run(line: string, output: readonly string[]): Promise<string> {
      if (line.startsWith('export DATABASE_URL=')) return '';
      const [, file] = /^psql "\$DATABASE_URL" -f (\S+)$/.exec(line) ?? [];
      if (file !== undefined) {
        await query(readFileSync(join(folder, file), 'utf8'));
        return '';
      }
      const stays = readme.includes('\ncurl ') && /npm (?:start|run dev)$/.test(line);
      const script = (_: string, short: string | undefined, long: string | undefined): string => {
        const text = scripts[short ?? long ?? ''] ?? assert.fail(`package.json has no script for ${line}`);
        // The signal at the end is for the application, not for the shell.
        return stays && short !== 'test' && long !== 'build' ? `exec env ${text}` : text;
      };
      const command = line
        .replaceAll('npx --no svc', 'svc')
        .replace(/\bnpm (?:(start|test)|run (\w+))/g, script)
        .replaceAll(':3000', `:${port}`);
      for (let again = 0; ; again++) {
        const running = start(command, folder, env);
        started.push(running);
        const isThere = (): boolean => output.every((each) => patternOf(each).test(running.said()));
        while (running.code() === undefined && !(stays && isThere())) await delay(50);
        if (running.code() === (stays ? undefined : 0)) return running.said();
        // The first event of a topic takes a moment to get there.
        assert.ok(line.includes(' tail ') && again < 10, `${line}: ${running.said()}`);
        await delay(500);
      }
    }

    it('its commands print what it shows', async () => {
      for (const { commands, output } of stepsOf(readme).slice(1)) {
        const expected = output.map((line) => line.replace(/\b3000\b/g, port));
        const said: string[] = [];
        for (const line of commands) said.push(await run(line, expected));
        const missing = (): string[] => expected.filter((each) => !patternOf(each).test(said.join('\n')));
        // An event of the outbox takes a moment to its topic.
        for (let again = 0; missing().length > 0 && again < 10; again++) {
          const looks = commands.filter((line) => line.startsWith('npx --no svc tail'));
          if (looks.length === 0) break;
          await delay(500);
          for (const line of looks) said.push(await run(line, []));
        }
        assert.deepEqual(missing(), [], said.join('\n'));
      }
    });

    it('what else it does, and its events in the end', async () => {
      const headers = headersOf(readme);
      for (const [method, path, content, status] of more[name]?.asks ?? []) {
        const { 'content-type': _, ...others } = headers;
        const answer = await fetch(`http://localhost:${port}${path}`, {
          method,
          ...(content === undefined ? { headers: others } : { headers, body: JSON.stringify(content) }),
        });
        assert.equal(answer.status, status, `${method} ${path}: ${await answer.text()}`);
      }
      for (const each of started) {
        await each.end();
        assert.doesNotMatch(each.said(), /svc: (?:error|warn)/);
      }
      const { events } = more[name] ?? {};
      const topics = join(folder, 'svc-topics');
      if (events === undefined) assert.ok(existsSync(topics));
      else assert.deepEqual(inOrder(readEvents(topics).map((each) => seenOf(each, events))), inOrder(events));
      if (name !== 'tickets') return;
      const rows = await query('SELECT id FROM orders WHERE id <= 3 ORDER BY id');
      assert.deepEqual(rows, [{ id: 1 }, { id: 3 }]);
    });
  });
}

/** As much of an event as is expected of those of its type. */
function seenOf({ topic, key, value }: PublishedEvent, events: readonly Expected[]): unknown[] {
  const all = [topic, value.eventType, key, value.payload, value.metadata.actor.userId];
  const same = events.find((each) => each[1] === value.eventType) ?? all;
  if (same[2] === '*') all[2] = '*';
  return all.slice(0, same.length);
}

const inOrder = (list: readonly (readonly unknown[])[]): unknown[] =>
  list.toSorted((a, b) => String(a.slice(0, 3)).localeCompare(String(b.slice(0, 3))));

/** Of the request that a README sends with curl. */
function headersOf(readme: string): Record<string, string> {
  const [curl = ''] = /^curl .*$/m.exec(readme) ?? [];
  return Object.fromEntries(
    [...curl.matchAll(/-H '([^:]+): ([^']+)'/g)].map(([, name, value]) => [name, value]),
  );
}

interface Started {
  /** Of its end; `null` where a signal ended it. */
  code(): number | null | undefined;
  said(): string;
  end(): Promise<unknown>;
}

/** A line of shell, in a group of processes of its own. */
function start(command: string, cwd: string, env: NodeJS.ProcessEnv): Started {
  const child = spawn('sh', ['-c', command], { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  let code: number | null | undefined;
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
  const timer = setTimeout(() => {
    said += `\nkilled after ${timeoutMs} ms`;
    process.kill(-(child.pid as number), 'SIGKILL');
  }, timeoutMs);
  const ended = new Promise<void>((done) =>
    child.once('close', (status) => {
      clearTimeout(timer);
      code = status;
      done();
    }),
  );
  return {
    code: () => code,
    said: () => said,
    end() {
      child.kill('SIGTERM');
      return ended;
    },
  };
}
