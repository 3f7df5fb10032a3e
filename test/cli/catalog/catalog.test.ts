import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Parser } from '@asyncapi/parser';
import type { Change } from '../../../src/catalog/shape.ts';
import { writeFiles } from '../../e2e/support/run-app.ts';
import { runSvc } from '../../support/run-svc.ts';

const config = `
svc:
  broker: { topic: orders.events.v1 }
  pii: { fields: [customer.email] }
  targets:
    - module: ./src/orders.ts
      function: createOrder
      eventType: ORDER_CREATED
      payload: "{ orderId: #result.id, product: #order.product, customer: { email: #order.email } }"
      key: "#result.id"
`;
const files = {
  'package.json': '{ "name": "shop", "version": "1.2.0", "type": "module" }',
  'svc.config.yaml': config,
  'src/orders.ts': `
    import { outbox, publish, publishEvent, PublishEvent } from 'svc';
    const types = { paid: 'ORDER_PAID' } as const;
    export async function createOrder(order: { product: string; email: string }) { return { id: 1 }; }
    class Payments {
      @PublishEvent({ eventType: types.paid, topic: 'payments.v1', payload: ({ result }) => ({ paymentId: result.id, by: 'card' }) })
      async pay() { return { id: 1 }; }
    }
    export const ship = publishEvent({ eventType: 'ORDER_SHIPPED' }, async (id: string) => ({ id }));
    export const note = () => publish({ noteId: 1 }, { eventType: 'NOTED', key: 'all' });
    export const later = () => publish({ a: 1 }, { eventType: String(process.env.KIND) });
    export const save = (tx: never) =>
      outbox.save(tx, { eventType: 'STORED', aggregateType: 'Order', aggregateId: 7, payload: { orderId: 7 } });`,
};

interface Entry {
  from: string[];
  topics: string[];
  keys: string[];
  payload: { type?: string; properties?: Record<string, object> };
}

describe('svc catalog', function () {
  this.timeout(120_000);
  let folder: string;
  const svc = (...args: string[]) => runSvc(['catalog', ...args], { cwd: folder });
  const read = (name: string) => readFileSync(join(folder, name), 'utf8');
  const entries = () =>
    (JSON.parse(read('event-catalog/svc.catalog.json')) as { events: Record<string, Entry> }).events;
  const edit = (name: string, from: string, to: string) => {
    assert.ok(read(name).includes(from), from);
    writeFileSync(join(folder, name), read(name).replace(from, to));
  };
  const changesOf = async (...args: string[]) => {
    const { code, stdout } = await svc('--check', '--json', ...args);
    const { changes, outdated } = JSON.parse(stdout) as { changes: Change[]; outdated: string[] };
    return {
      code,
      outdated,
      lines: changes.map(
        ({ eventType, path, says, breaks }) => `${breaks ? '!' : '+'} ${eventType} ${path} ${says}`,
      ),
    };
  };
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'svc-catalog-'));
    writeFiles(folder, files);
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it('finds what configuration and code publish, and writes each form', async () => {
    const { code, stdout, stderr } = await svc();
    assert.deepEqual([code, stdout], [0, ''], stderr);
    assert.match(stderr, /^event-catalog: 5 event types, 13 files written$/m);
    assert.match(stderr, /known only at runtime: src\/orders\.ts:11;/);
    const found = entries();
    assert.deepEqual(
      Object.entries(found).map(([type, { from, topics, keys, payload }]) => [
        type,
        from,
        topics,
        keys,
        Object.keys(payload.properties ?? {}),
      ]),
      [
        ['NOTED', ['src/orders.ts#publish()'], ['orders.events.v1'], ['all'], ['noteId']],
        [
          'ORDER_CREATED',
          ['src/orders.ts#createOrder'],
          ['orders.events.v1'],
          ['#result.id'],
          ['customer', 'orderId', 'product'],
        ],
        ['ORDER_PAID', ['src/orders.ts#Payments.pay'], ['payments.v1'], [], ['by', 'paymentId']],
        ['ORDER_SHIPPED', ['src/orders.ts#ORDER_SHIPPED'], ['orders.events.v1'], [], []],
        ['STORED', ['src/orders.ts#outbox.save()'], ['orders.events.v1'], ['7'], ['orderId']],
      ],
    );
    assert.deepEqual(found.ORDER_CREATED?.payload.properties?.customer, {
      type: 'object',
      properties: { email: { type: 'string', protection: 'masked' } },
    });
    assert.deepEqual(readdirSync(join(folder, 'event-catalog')).sort(), [
      'asyncapi.json',
      'avro',
      'events.ts',
      'json-schema',
      'svc.catalog.json',
    ]);
    assert.equal(JSON.parse(read('event-catalog/json-schema/ORDER_PAID.json')).title, 'ORDER_PAID');
    const { diagnostics } = await new Parser().parse(read('event-catalog/asyncapi.json'));
    assert.deepEqual(
      diagnostics.filter(({ severity }) => severity === 0),
      [],
    );
    const again = await svc();
    assert.match(again.stderr, /5 event types, 0 files written/);
  });

  it('--check fails on what breaks consumers, with its path, and writes nothing', async () => {
    await svc();
    assert.deepEqual(await changesOf(), { code: 0, outdated: [], lines: [] });
    edit('svc.config.yaml', 'product: #order.product', 'item: #order.product');
    edit('src/orders.ts', "topic: 'payments.v1'", "topic: 'payments.v2'");
    edit('src/orders.ts', "'ORDER_SHIPPED'", "'ORDER_SENT'");
    const { code, lines } = await changesOf();
    assert.deepEqual(
      [code, lines],
      [
        1,
        [
          '! ORDER_CREATED payload.product is removed',
          '+ ORDER_CREATED payload.item is new',
          '! ORDER_PAID topic payments.v1 has it no more: it is in payments.v2',
          '+ ORDER_SENT  is new',
          '! ORDER_SHIPPED  is no longer published',
        ],
      ],
    );
    const { stdout, stderr } = await svc('--check');
    assert.match(stdout, /^BREAKS {2}ORDER_CREATED payload\.product: is removed$/m);
    assert.match(stderr, /^3 changes can break consumers/m);
    assert.ok('ORDER_SHIPPED' in entries());
  });

  it('--check takes additions, and says that the files are old', async () => {
    await svc();
    edit('svc.config.yaml', 'product: #order.product', 'product: #order.product, total: #order.total');
    const { code, stdout, stderr } = await svc('--check');
    assert.deepEqual([code, stdout], [0, 'ok      ORDER_CREATED payload.total: is new\n']);
    assert.match(stderr, /event-catalog is not up to date: npx --no svc catalog writes it/);
    const written = await svc();
    assert.equal(written.stdout, stdout);
    assert.deepEqual(await changesOf(), { code: 0, outdated: [], lines: [] });
  });

  it('--against compares with another one, such as that of the main branch', async () => {
    await svc();
    writeFileSync(join(folder, 'base.json'), read('event-catalog/svc.catalog.json'));
    edit('svc.config.yaml', 'product: #order.product, ', '');
    await svc();
    assert.equal((await changesOf()).code, 0);
    const { code, lines } = await changesOf('--against', 'base.json');
    assert.deepEqual([code, lines], [1, ['! ORDER_CREATED payload.product is removed']]);
  });

  it('takes away the files of a type that is gone', async () => {
    await svc();
    edit('src/orders.ts', "'ORDER_SHIPPED'", "'ORDER_SENT'");
    const { stdout, stderr } = await svc();
    assert.match(stdout, /^BREAKS {2}ORDER_SHIPPED: is no longer published$/m);
    assert.match(stderr, /^1 change can break consumers$/m);
    assert.ok(readdirSync(join(folder, 'event-catalog/avro')).includes('ORDER_SENT.avsc'));
    assert.ok(!readdirSync(join(folder, 'event-catalog/avro')).includes('ORDER_SHIPPED.avsc'));
  });

  it('says what is wrong with what it is given, and writes nothing', async () => {
    const cases: [files: Record<string, string>, args: string[], code: number, says: RegExp][] = [
      [{ 'event-catalog/svc.catalog.json': '{ "svcCatalog": 1, ' }, [], 1, /svc\.catalog\.json is no JSON$/m],
      [
        { 'event-catalog/svc.catalog.json': '<<<<<<< HEAD\n{}' },
        [],
        1,
        /is no JSON: it holds a Git conflict$/m,
      ],
      [{ 'event-catalog/svc.catalog.json': '[]' }, [], 1, /is not a catalog of svc$/m],
      [
        { 'event-catalog/svc.catalog.json': '{ "svcCatalog": 2, "events": {} }' },
        ['--check'],
        1,
        /is a catalog of version 2, and this svc knows version 1: install the svc version that wrote it$/m,
      ],
      [
        {
          'event-catalog/svc.catalog.json':
            '{ "svcCatalog": 1, "events": { "A": { "payload": { "type": "text" } } } }',
        },
        [],
        1,
        /its entry for "A" is not from svc catalog$/m,
      ],
      [{}, ['--check'], 1, /there is no catalog in event-catalog yet: npx --no svc catalog makes it$/m],
      [{}, ['--check', '--against', 'gone.json'], 1, /^svc: gone\.json does not exist$/m],
      [{ 'svc.config.yaml': config.replace('orders.ts', 'orders.ts: [') }, [], 1, /^svc: svc\.config\.yaml/m],
      [{ 'svc.config.yaml': config.replace('ORDER_CREATED', '7') }, [], 1, /eventType/],
      [
        {
          'svc.config.yaml': `${config}${'    - { module: ./src/orders.ts, function: createOrder }\n'.repeat(7)}`,
        },
        [],
        1,
        /targets\[5\].*; and 2 more: npx --no svc check$/m,
      ],
      [
        { 'svc.config.yaml': config.replace('topic: orders.events.v1', 'client: file') },
        [],
        1,
        /svc\.broker\.topic/,
      ],
      [{}, ['--config', 'gone.yaml'], 1, /gone\.yaml/],
      [{}, ['--against', 'base.json'], 2, /--against goes with --check/],
      [{}, ['--check', '--watch'], 2, /--check and --watch cannot be combined/],
      [{}, ['--since', '1h'], 2, /--since goes with --watch/],
      [{ 'event-catalog/json-schema': 'a file' }, [], 1, /event-catalog cannot be written \(E/],
    ];
    for (const [given, args, code, says] of cases) {
      rmSync(folder, { recursive: true, force: true });
      writeFiles(folder, { ...files, ...given });
      const end = await svc(...args);
      assert.deepEqual([end.code, end.stdout], [code, ''], end.stderr);
      assert.match(end.stderr, says);
      for (const [name, text] of Object.entries(given)) assert.equal(read(name), text);
    }
    rmSync(join(folder, 'svc.config.yaml'));
    const { code, stdout } = await svc('--json');
    const { ok, problem } = JSON.parse(stdout) as { ok: boolean; problem: string };
    assert.deepEqual([code, ok], [1, false]);
    assert.match(problem, /svc\.config\./);
  });

  it('takes a thousand event types, and names that no file can have', async () => {
    const names = Array.from({ length: 1_000 }, (_, at) => `TYPE_${at}`);
    const odd = ['a/b', '../../up', '<b>x</b>', 'x'.repeat(300), 'con', 'type_1', '\u202eevil', "it's", '`'];
    const all = [...names, ...odd];
    const common = { module: './src/orders.ts', payload: '{ id: #result.id }' };
    const targets = all.map((eventType, at) => ({ ...common, function: `f${at}`, eventType }));
    rmSync(join(folder, 'svc.config.yaml'));
    writeFiles(folder, {
      'svc.config.json': JSON.stringify({ svc: { broker: { topic: 'orders.events.v1' }, targets } }),
      'src/orders.ts': 'export const createOrder = () => ({ id: 1 });',
    });
    const { code, stderr } = await svc();
    assert.equal(code, 0, stderr.slice(0, 1_000));
    assert.deepEqual(Object.keys(entries()).sort(), all.sort());
    assert.deepEqual(readdirSync(folder).sort(), ['event-catalog', 'package.json', 'src', 'svc.config.json']);
    const schemas = readdirSync(join(folder, 'event-catalog/json-schema'));
    assert.equal(schemas.length, all.length);
    assert.equal(new Set(schemas.map((name) => name.toLowerCase())).size, all.length);
    for (const name of schemas) {
      assert.match(name, /^[A-Za-z0-9_.-]{1,115}$/);
      assert.ok(all.includes(JSON.parse(read(`event-catalog/json-schema/${name}`)).title));
    }
    const check = await svc('--check');
    assert.deepEqual([check.code, check.stdout], [0, ''], check.stderr);
  });
});
