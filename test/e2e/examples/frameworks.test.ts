import assert from 'node:assert/strict';
import { cpSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { freePorts } from '../../../scripts/services/ports.ts';
import { type Dependencies, installPacked } from '../../support/packed.ts';
import { freshFolder, readEvents } from '../support/run-app.ts';
import { endOf, startApp } from '../support/start-app.ts';
import { subject } from '../support/subject.ts';

const tested = await subject();
const examples = resolve(import.meta.dirname, '../../../examples');

interface Example {
  readonly name: string;
  /** What is asked for after the request of its README: what to ask, and the status of the answer. */
  readonly more: readonly (readonly [
    method: string,
    path: string,
    body: object | undefined,
    status: number,
  ])[];
  /** By topic and type: the key and the payload, and who is said to have done it. */
  readonly events: readonly (readonly [
    topic: string,
    type: string,
    key: string,
    payload: object,
    userId: string | null,
  ])[];
  /** Lines of its source that name svc. */
  readonly own?: number;
}

const all: readonly Example[] = [
  {
    name: 'express',
    more: [
      ['POST', '/parcels', { recipient: 'Bob', grams: 30_001 }, 400],
      ['POST', '/parcels/1/delivery', undefined, 200],
      ['POST', '/parcels/1/delivery', undefined, 400],
    ],
    events: [
      [
        'parcels.events.v1',
        'PARCEL_POSTED',
        '1',
        { id: 1, recipient: 'Cl****', grams: 300, status: 'POSTED' },
        'u-17',
      ],
      ['parcels.events.v1', 'PARCEL_DELIVERED', '1', { id: 1, grams: 300, status: 'DELIVERED' }, 'u-17'],
    ],
  },
  {
    name: 'fastify',
    more: [
      ['POST', '/invoices', { customer: 'Acme', iban: 'DE89370400440532013000', cents: 0 }, 400],
      ['POST', '/invoices/1/payment', undefined, 200],
      ['POST', '/invoices/2/payment', undefined, 500],
    ],
    events: [
      [
        'invoices.events.v1',
        'INVOICE_ISSUED',
        '1',
        { id: 1, customer: 'Acme', iban: 'DE89****', cents: 1999, paid: 0 },
        'u-3',
      ],
      ['invoices.events.v1', 'INVOICE_PAID', '1', { id: 1, cents: 1999 }, 'u-3'],
    ],
    own: 1,
  },
  {
    name: 'nestjs',
    more: [
      ['POST', '/bookings', { room: 7, day: '2027-01-05' }, 409],
      ['DELETE', '/bookings/1', undefined, 200],
      ['DELETE', '/bookings/x', undefined, 400],
    ],
    events: [
      ['rooms.events.v1', 'ROOM_BOOKED', '7', { id: 1, room: 7, day: '2027-01-05', guest: 'A****' }, 'u-17'],
      ['rooms.events.v1', 'BOOKING_CANCELLED', '7', { id: 1, room: 7, day: '2027-01-05' }, 'u-17'],
    ],
  },
  {
    name: 'workers',
    more: [
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
];

// TypeScript that Node runs itself.
for (const { name, more, events, own = 0 } of tested.stripsTypes ? all : []) {
  describe(`examples/${name}`, function () {
    this.timeout(180_000);
    const example = join(examples, name);
    const manifest = JSON.parse(readFileSync(join(example, 'package.json'), 'utf8'));
    const readme = readFileSync(join(example, 'README.md'), 'utf8');
    const scripts = manifest.scripts as Record<string, string>;
    let app: string;

    before('npm install', async () => {
      const { typescript } = manifest.devDependencies as Record<string, string>;
      const compiler = scripts.build === undefined ? {} : { ...manifest.devDependencies, typescript };
      app = installPacked(`example-${name}`, { ...(manifest.dependencies as Dependencies), ...compiler });
    });

    it('runs, and its events are there, by the commands of its README', async () => {
      const folder = freshFolder(app, name);
      cpSync(example, folder, {
        recursive: true,
        filter: (path) => !/node_modules|svc-topics|\.db/.test(path),
      });
      const [, before = ''] = /^(.*)npm start$/m.exec(readme) ?? [];
      for (const [command, args] of [
        ['npm run build', ['typescript/bin/tsc']],
        ['npx --no svc outbox migrate', ['svc/bin/svc.cjs', 'outbox', 'migrate']],
      ] as const) {
        if (!before.includes(command)) continue;
        const [program, ...rest] = args;
        const { code, stdout, stderr } = await endOf({
          ...{ app, folder, files: {}, timeoutMs: 120_000 },
          args: [join(app, 'node_modules', program), ...rest],
        });
        assert.equal(code, 0, `${command}: ${stdout}${stderr}`);
      }
      const [port] = await freePorts(1);
      const running = await startApp({
        ...{ app, folder, files: {}, timeoutMs: 60_000, env: { PORT: String(port) } },
        args: argsOf(scripts.start),
      });
      await running.waitFor(/listening/);
      const { path, body, headers } = requestOf(readme);
      for (const [method, at, content, status] of [['POST', path, body, 201] as const, ...more]) {
        const { 'content-type': type, ...others } = headers;
        const answer = await fetch(`http://localhost:${port}${at}`, {
          method,
          ...(content === undefined ? { headers: others } : { headers, body: JSON.stringify(content) }),
        });
        assert.equal(answer.status, status, `${method} ${at}: ${await answer.text()}`);
      }
      const { code, signal, stderr } = await running.kill('SIGTERM');
      // Nest sends itself the signal again, once its hooks have run.
      assert.ok(code === 0 || signal === 'SIGTERM', `${code} ${signal}: ${stderr}`);
      assert.doesNotMatch(stderr, /svc: (?:error|warn)/);
      const found = readEvents(join(folder, 'svc-topics')).map(({ topic, key, value }) => [
        ...[topic, value.eventType, key, value.payload, value.metadata.actor.userId],
      ]);
      const inOrder = (list: readonly (readonly unknown[])[]) =>
        list.toSorted((a, b) => String(a.slice(0, 3)).localeCompare(String(b.slice(0, 3))));
      assert.deepEqual(inOrder(found), inOrder(events));
    });

    it(`names svc in ${own === 0 ? 'no line' : 'one line'} of its source`, () => {
      const lines = readdirSync(join(example, 'src')).flatMap((file) =>
        readFileSync(join(example, 'src', file), 'utf8').split('\n'),
      );
      assert.equal(lines.filter((line) => /from 'svc/.test(line)).length, own);
    });
  });
}

function argsOf(script: string | undefined): string[] {
  const [program, ...args] = script?.split(' ') ?? [];
  assert.equal(program, 'node');
  return args;
}

/** The request that a README sends with curl. */
function requestOf(readme: string): { path: string; headers: Record<string, string>; body: object } {
  const [, path, options] = /^curl -X POST http:\/\/localhost:3000(\S+)(.*)$/m.exec(readme) ?? [];
  assert.ok(path !== undefined && options !== undefined);
  const headers = [...options.matchAll(/-H '([^:]+): ([^']+)'/g)].map(([, name, value]) => [name, value]);
  const body = JSON.parse(/-d '([^']+)'/.exec(options)?.[1] ?? '');
  return { path, headers: Object.fromEntries(headers), body };
}
