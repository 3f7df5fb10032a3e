import assert from 'node:assert/strict';
import { eventTypeOf } from '../../../src/capture/declare/make-plan.ts';
import { findDeclared } from '../../../src/capture/source/declared.ts';
import { doubtsOf } from '../../../src/cli/doubts.ts';
import { formatProblem, unusedSchemas } from '../../../src/config/check/check.ts';
import { loadConfig } from '../../../src/config/read/load.ts';
import { folderWith, removeFolders } from '../../config/config-folder.ts';
import { runSvc } from '../../support/run-svc.ts';

const types = `
export interface Customer { email: string; name?: string | null }
export type Line = { sku: string; gift: { to: string } | null };
export class Order { constructor(readonly id: string, readonly customer: Customer, readonly lines: Line[]) {} get total() { return 1; } }
`;
const service = `
import type { OrderRepository } from './repository.ts';
import { insertOrder as insert } from './functions.ts';
import * as functions from './functions.ts';
import type { Order } from './types.ts';
export class OrderService {
  #gate = new Gate();
  constructor(private readonly store: OrderRepository, private readonly gate: Gate) {}
  async create(order: Order): Promise<Order> { const made = await this.store.insert(order); return made; }
  async place(order: Order): Promise<Order> { return await this.gate.pay(order); }
  async charge(order: Order): Promise<Order> { await this.gate.pay(order); return order; }
  alone(order: any) { return order; }
  direct(order: Order) { insert(order); }
  whole(order: Order) { functions.insertOrder(order); }
  own(order: Order) { this.alone(order); }
  other(order: Order) { this.gate.insert(order); }
}
export class Gate { pay(order: any) { return order; } insert(order: any) {} }
`;
const files = {
  'package.json': '{"type":"module"}',
  'src/types.ts': types,
  'src/service.ts': service,
  'src/repository.ts': `import type { Order } from './types.ts';
    export class OrderRepository { async insert(order: Order): Promise<Order> { return order; } }`,
  'src/functions.ts': `export function insertOrder(order) { return order; }
    export const putOrder = insertOrder;
    export function saveOrder(order) { return insertOrder(order); }`,
  'src/plain.js': `export class OrderService { constructor(orders) { this.orders = orders; } create(o) { return this.orders.save(o); } }
    export class OrderRepository { save(o) {} }
    export class Mailer { save(o) {} }`,
};

type Target = { module: string; function: string } & Record<string, unknown>;
const at = (place: string, eventType?: string, more: object = {}): Target => {
  const [module = '', path = ''] = place.split('#');
  return { module: `./src/${module}`, function: path, ...(eventType && { eventType }), ...more };
};

function doubts(targets: readonly Target[], svc: object = {}): string[] {
  const yaml = JSON.stringify({ svc: { broker: { client: 'file', topic: 'orders' }, targets, ...svc } });
  const cwd = folderWith({ ...files, 'svc.config.json': yaml });
  const { config, problems, targetProblems } = loadConfig({ cwd, env: {} });
  assert.deepEqual([problems, targetProblems], [[], []]);
  return doubtsOf(config, findDeclared(cwd).events).map(formatProblem);
}

describe('what svc check and svc doctor doubt', function () {
  this.timeout(30_000);
  afterEach(removeFolders);

  describe('two events for one call', () => {
    const create = at('service.ts#OrderService.prototype.create', 'ORDER_CREATED');
    const insert = at('repository.ts#OrderRepository.prototype.insert', 'ORDER_INSERTED');
    for (const [what, outer, inner, isTold] of [
      ['a service and its repository, by the type of the field', create, insert, true],
      [
        'by default event types',
        at('service.ts#OrderService.prototype.create'),
        at('repository.ts#OrderRepository.prototype.insert'),
        true,
      ],
      ['the other way round in the list', insert, create, true],
      [
        'an imported function, under another name',
        at('service.ts#OrderService.prototype.direct', 'ORDER_SAVED'),
        at('functions.ts#insertOrder'),
        true,
      ],
      [
        'a function of a namespace',
        at('service.ts#OrderService.prototype.whole', 'ORDER_SAVED'),
        at('functions.ts#insertOrder'),
        true,
      ],
      ['a function of the same file', at('functions.ts#saveOrder'), at('functions.ts#insertOrder'), true],
      [
        'a method of the same class',
        at('service.ts#OrderService.prototype.own', 'ORDER_A'),
        at('service.ts#OrderService.prototype.alone', 'ORDER_B'),
        true,
      ],
      [
        'JavaScript, by the name of the field',
        at('plain.js#OrderService.prototype.create', 'ORDER_A'),
        at('plain.js#OrderRepository.prototype.save', 'ORDER_B'),
        true,
      ],
      [
        'name the same function',
        at('functions.ts#putOrder', 'A_B'),
        at('functions.ts#insertOrder', 'C_D'),
        true,
      ],
      [
        'what it returns, though the event is about another matter',
        at('service.ts#OrderService.prototype.place', 'ORDER_PLACED'),
        at('service.ts#Gate.prototype.pay', 'PAYMENT_MADE'),
        true,
      ],
      [
        'another matter',
        at('service.ts#OrderService.prototype.charge', 'ORDER_PLACED'),
        at('service.ts#Gate.prototype.pay', 'PAYMENT_MADE'),
        false,
      ],
      [
        'a method of this name, of another class',
        at('service.ts#OrderService.prototype.other', 'ORDER_SAVED'),
        insert,
        false,
      ],
      [
        'a field of another name',
        at('plain.js#OrderService.prototype.create', 'ORDER_A'),
        at('plain.js#Mailer.prototype.save', 'ORDER_B'),
        false,
      ],
      ['no call', at('service.ts#OrderService.prototype.alone', 'ORDER_A'), insert, false],
    ] as const)
      it(`${what}: ${isTold ? 'told' : 'not told'}`, () => {
        const told = doubts([outer, inner]);
        assert.equal(
          told.filter((each) => /makes? two events/.test(each)).length,
          isTold ? 1 : 0,
          told.join('\n'),
        );
      });

    it('names both functions, both event types, and what to do', () => {
      assert.deepEqual(doubts([create, insert]), [
        'svc.targets[0]: src/service.ts#OrderService.prototype.create calls src/repository.ts#OrderRepository.prototype.insert: one call makes two events, ORDER_CREATED and ORDER_INSERTED (svc.config.json:1). Keep one of them, usually the target in the service, unless you want both events.',
      ]);
    });
  });

  describe('keys of one aggregate', () => {
    const service1 = 'service.ts#OrderService.prototype.alone';
    const service2 = 'service.ts#Gate.prototype.pay';
    for (const [a, keyA, b, keyB, isTold] of [
      ['ORDER_CREATED', '#result.id', 'ORDER_PAID', '#result.orderId', true],
      ['ORDER_CREATED', '#result.id', 'ORDER_PAID', undefined, true],
      ['ORDER_CREATED', undefined, 'ORDER_PAID', '#result.id', true],
      ['ORDER_CREATED', '#result.id', 'ORDER_PAID', "'order-' + #result.id", true],
      ['OrderCreated', '#result.id', 'OrderPaid', '#result.number', true],
      ['order.created', '#result.id', 'order.paid', '#result.number', true],
      ['ORDER_CREATED', '#result.id', 'ORDER_PAID', '#result?.id', false],
      ['ORDER_CREATED', '#result.id', 'ORDER_PAID', '#order.id', false],
      ['ORDER_CREATED', '#result.id', 'ORDER_PAID', '#order.orderId', false],
      ['ORDER_CREATED', '#result.id', 'ORDER_PAID', '#p0', false],
      ['ORDER_CREATED', '#result.orderId', 'ORDER_PAID', '#order.orderId', false],
      ['ORDER_CREATED', undefined, 'ORDER_PAID', undefined, false],
      ['ORDER_CREATED', '#result.id', 'PAYMENT_MADE', '#result.orderId', false],
      ['ORDER_CREATED', '#result.id', 'ORDER_ITEM_ADDED', '#result.orderId', false],
    ] as const)
      it(`${a} by ${keyA}, ${b} by ${keyB}: ${isTold ? 'told' : 'not told'}`, () => {
        const told = doubts([at(service1, a, keyA && { key: keyA }), at(service2, b, keyB && { key: keyB })]);
        assert.equal(told.length, isTold ? 1 : 0, told.join('\n'));
        if (isTold) assert.match(told[0] ?? '', new RegExp(`^svc\\.targets\\[\\d\\]\\.key: .*${a}.*`));
      });

    it('in another topic, nothing is told', () => {
      const other = at(service2, 'ORDER_PAID', { key: '#result.number', topic: 'payments' });
      assert.deepEqual(doubts([at(service1, 'ORDER_CREATED', { key: '#result.id' }), other]), []);
    });
  });

  describe('rules for personal data', () => {
    const typed = at('service.ts#OrderService.prototype.create', 'ORDER_CREATED');
    const spelled = {
      ...typed,
      payload: '{ id: #result.id, to: #order.customer.email, who: #order.customer }',
    };
    const untyped = at('service.ts#OrderService.prototype.alone', 'ORDER_SEEN');
    for (const [what, targets, path, isTold] of [
      ['a field of a type', [typed], 'customer.email', false],
      ['a field of the elements of a list', [typed], 'lines[*].gift.to', false],
      ['at any depth', [typed], '**.sku', false],
      ['any key', [typed], '*.email', false],
      ['an object', [typed], 'customer', false],
      ['a spelling mistake', [typed], 'custmer.email', true],
      ['a field of another object', [typed], 'email', true],
      ['at no depth', [typed], '**.ssn', true],
      ['a getter, which JSON leaves out', [typed], 'total', true],
      ['a name that the payload has', [spelled], 'who.email', false],
      ['a name that the payload has not', [spelled], 'customer.email', true],
      ['below a text', [spelled], 'to.address', true],
      ['a payload of no known type', [untyped], 'whatever', false],
      ['beside a payload of no known type', [typed, untyped], 'custmer.email', false],
      ['an argument', [{ ...typed, payloadIndex: 0 }], 'customer.mail', true],
    ] as const)
      it(`${what}, ${path}: ${isTold ? 'told' : 'not told'}`, () => {
        const told = doubts(targets, { pii: { fields: [path] } });
        assert.equal(told.length, isTold ? 1 : 0, told.join('\n'));
        if (isTold)
          assert.ok(told[0]?.startsWith(`svc.pii.fields[0]: the path "${path}" matches no field`), told[0]);
      });

    it('those of a target are compared with its own payload', () => {
      const told = doubts([{ ...typed, pii: ['customer.mail'] }, untyped]);
      assert.match(
        told[0] ?? '',
        /^svc\.targets\[0\]\.pii\[0\]: the path "customer\.mail" .* payload of ORDER_CREATED/,
      );
    });

    it('where code publishes events of its own that reading does not know, nothing is told', () => {
      const cwd = folderWith({
        ...files,
        'src/code.ts': `import { publish } from 'svc'; export const f = (x) => publish(x);`,
        'svc.config.json': JSON.stringify({
          svc: {
            broker: { client: 'file', topic: 'a' },
            targets: [typed],
            pii: { fields: ['custmer.email'] },
          },
        }),
      });
      const { config } = loadConfig({ cwd, env: {} });
      assert.deepEqual(doubtsOf(config, findDeclared(cwd).events), []);
    });
  });

  describe('a schema that no event has', () => {
    const targets = [at('service.ts#OrderService.prototype.create', 'ORDER_CREATED')];
    const cases: [
      what: string,
      schemas: readonly string[],
      code: string,
      told: readonly (string | RegExp)[],
    ][] = [
      ['of a target', ['ORDER_CREATED'], '', []],
      [
        'of an event that code publishes',
        ['ORDER_CREATED', 'PAID'],
        `publish({}, { eventType: 'PAID' })`,
        [],
      ],
      ['mistyped', ['ORDER_CRATED'], '', [/ORDER_CRATED, .*: ORDER_CREATED has no schema/]],
      [
        'of nothing',
        ['ORDER_CREATED', 'INVOICE_SENT'],
        '',
        [/INVOICE_SENT, but no target publishes that event type\b/],
      ],
      ['where code computes types', ['ORDER_CREATED', 'INVOICE_SENT'], 'publish({}, { eventType: x })', []],
      [
        'mistyped, where code computes types',
        ['ORDER_CRATED'],
        'publish({}, { eventType: x })',
        [/: ORDER_CREATED has/],
      ],
    ];
    for (const [what, schemas, code, told] of cases)
      it(`${what}: ${told.length === 0 ? 'not told' : 'told'}`, () => {
        const serde = {
          type: 'AVRO',
          'schema-registry-url': 'http://localhost:8081',
          schemas: Object.fromEntries(schemas.map((type) => [type, 'order.avsc'])),
        };
        const broker = { 'bootstrap-servers': 'localhost:9092', topic: 'orders' };
        const cwd = folderWith({
          ...files,
          'order.avsc': '{"type":"record","name":"Order","fields":[]}',
          'src/code.ts': `import { publish } from 'svc'; export const f = (x) => ${code || 'x'};`,
          'svc.config.json': JSON.stringify({ svc: { broker, targets, serde } }),
        });
        const { config, problems } = loadConfig({ cwd, env: {} });
        assert.deepEqual(problems, []);
        const found = doubtsOf(config, findDeclared(cwd).events).map(formatProblem);
        assert.equal(found.length, told.length, found.join('\n'));
        for (const [index, each] of told.entries()) assert.match(found[index] ?? '', each as RegExp);
        // The start, which knows targets only.
        const atStart = unusedSchemas(config, config.targets.map(eventTypeOf), false);
        assert.equal(atStart.length, what.startsWith('mistyped') ? 1 : 0);
      });
  });

  it('svc check and svc doctor tell them, with secrets in the file, and neither fails', async () => {
    const targets = [
      at('service.ts#OrderService.prototype.create', 'ORDER_CREATED', { key: '#result.id' }),
      at('repository.ts#OrderRepository.prototype.insert', 'ORDER_INSERTED'),
    ];
    const pii = { fields: ['custmer.email=EMAIL:HASH'], crypto: { salt: 'hunter2-hunter2-hunter2' } };
    const svc = { broker: { client: 'file', topic: 'orders' }, targets, pii };
    const cwd = folderWith({ ...files, 'svc.config.json': JSON.stringify({ svc }) });
    for (const command of ['check', 'doctor']) {
      const { code, stdout } = await runSvc([command], { cwd });
      assert.equal(code, 0, stdout);
      const warned = stdout.split('\n').filter((line) => /^warning/i.test(line));
      for (const part of [
        'svc.pii.crypto.salt: is a secret',
        'makes two events',
        'svc.targets[1].key',
        'custmer.email',
      ])
        assert.equal(warned.filter((line) => line.includes(part)).length, 1, `${part}\n${stdout}`);
      assert.doesNotMatch(stdout, /hunter2/);
      assert.match(stdout, /SVC_PII_CRYPTO_SALT/);
    }
  });
});
