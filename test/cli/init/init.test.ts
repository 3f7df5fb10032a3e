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
    assert.match(text, /payload: "\{ orderId: #result\.id, product: #order\.product \}"\n.*name it: email\n/);
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
    assert.match(replaced.stderr, /package\.json stays as it is\nnext: npx --no svc check\n$/);
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

  it('on a terminal: proposals are ticked, and what is ticked is written', async () => {
    const { code, screen } = await onTerminal(folder, [
      // Down to the second, which it takes off.
      [/become events/, 'j \r'],
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

const shop = {
  'package.json': '{ "name": "shop", "scripts": { "start": "node server.js" } }',
  'server.js': `const express = require('express');
    express().use(require('./routes/orders')).listen(0);`,
  'routes/orders.js': `const { Router } = require('express');
    const orders = require('../services/orders');
    const router = Router();
    async function createOrder(req, res) { res.json(await orders.placeOrder(req.body)); }
    router.post('/', createOrder);
    router.delete('/:id', async (req, res) => res.json(await orders.cancelOrder(req.params.id)));
    module.exports = router;`,
  'services/orders.js': `const { insertOrder: insert, updateOrder } = require('../rows');
    async function placeOrder({ product, email }) { const order = await insert({ product, email }); return order; }
    async function cancelOrder(orderId) { return updateOrder(orderId, { state: 'cancelled' }); }
    module.exports = { placeOrder, cancelOrder };`,
  'rows.js': `exports.insertOrder = async (order) => { const row = { id: '1', ...order }; return row; };
    exports.updateOrder = async (id, changes) => ({ ...changes });`,
};
const billing = {
  'package.json': '{ "type": "module", "scripts": { "build": "tsc", "start": "node dist/server.js" } }',
  'src/types.ts': `interface Base { id: number; iban: string } export interface Invoice extends Base { amount: number }
    export type NewInvoice = Omit<Invoice, 'id'>;`,
  'src/repository.ts': `import type { Invoice, NewInvoice } from './types.js';
    export class InvoiceRepository {
      async insert(client: Client, invoice: NewInvoice): Promise<Invoice> { return { ...invoice, id: 1 }; }
      async updateState(client: Client, id: number, state: string): Promise<number> { return id; }
    }`,
  'src/service.ts': `import { inTransaction } from './database.js';
    import { InvoiceRepository } from './repository.js';
    import type { NewInvoice } from './types.js';
    export class InvoiceService {
      readonly #rows = new InvoiceRepository();
      async createInvoice(input: NewInvoice) { return inTransaction((client) => this.#store(client, input)); }
      async payInvoice(invoiceId: number): Promise<void> { await this.#rows.updateState(0, invoiceId, 'paid'); }
      #store(client, input: NewInvoice) { return this.#rows.insert(client, input); }
    }`,
  'src/server.ts': `import { InvoiceService } from './service.js'; new InvoiceService().payInvoice(1);`,
};
const nest = {
  'package.json':
    '{ "scripts": { "build": "nest build", "start": "nest start", "start:prod": "node dist/main" } }',
  'src/dto.ts': 'export class CreateOrder { readonly product: string; readonly email: string }',
  'src/orders.controller.ts': `import { OrdersService } from './orders.service'; import { CreateOrder } from './dto';
    @Controller('orders') export class OrdersController {
      constructor(private readonly ordersService: OrdersService) {}
      @Post() create(@Body() order: CreateOrder) { return this.ordersService.create(order); }
      @Delete(':id') remove(@Param('id') id: string, @Res() res) { res.send(this.ordersService.remove(id)); }
    }`,
  'src/orders.service.ts': `import { CreateOrder } from './dto'; import { PaymentsService } from './payments.service';
    @Injectable() export class OrdersService {
      constructor(private readonly payments: PaymentsService) {}
      async create(order: CreateOrder): Promise<{ id: string }> { await this.payments.chargeFee('a'); return { id: '1' }; }
      async remove(id: string) { return { id }; }
    }`,
  'src/payments.service.ts': `@Injectable() export class PaymentsService {
      async chargeFee(orderId: string) {} }`,
};
const two = (one: string, other: string, more = '') => ({
  'package.json': '{ "type": "module", "scripts": { "start": "node main.js" } }',
  'main.js': `import { createOrder } from './orders.js'; ${more} createOrder({});`,
  'orders.js': `${one} ${other}`,
});
const create = 'export function createOrder(order) { return insertOrder(order); }';
const insert = 'export function insertOrder(order) { return { id: 1 }; }';

describe('svc init: one event for one call', function () {
  this.timeout(120_000);
  const calls = (name: string) => new RegExp(`^${name} calls it: one call, one event$`);
  const handsOn = (name: string) => new RegExp(`^it only hands on to ${name}, which knows the outcome$`);
  const rows: [
    what: string,
    files: Readonly<Record<string, string>>,
    taken: Readonly<Record<string, string | null>>,
    left: Readonly<Record<string, RegExp>>,
  ][] = [
    [
      'CommonJS: a handler, a service, and rows',
      shop,
      { 'placeOrder=ORDER_PLACED': '#result.id', 'cancelOrder=ORDER_CANCELLED': '#orderId' },
      {
        createOrder: handsOn('placeOrder'),
        insertOrder: calls('placeOrder'),
        updateOrder: calls('cancelOrder'),
      },
    ],
    [
      'TypeScript: a private method and a transaction between them, types of other files',
      billing,
      {
        'InvoiceService.prototype.createInvoice=INVOICE_CREATED': '#result.id',
        'InvoiceService.prototype.payInvoice=INVOICE_PAID': '#invoiceId',
      },
      { 'InvoiceRepository.prototype.insert': calls('InvoiceService.createInvoice') },
    ],
    [
      'NestJS: the controller that returns, the service where it answers by itself, and what it calls about another matter',
      nest,
      {
        'OrdersController.prototype.create=ORDER_CREATED': '#result.id',
        'OrdersService.prototype.remove=ORDER_REMOVED': '#result.id',
      },
      {
        'OrdersService.prototype.create': calls('OrdersController.create'),
        'PaymentsService.prototype.chargeFee': calls('OrdersController.create'),
        'OrdersController.prototype.remove': handsOn('OrdersService.remove'),
      },
    ],
    [
      'two of one file',
      two(create, insert),
      { 'createOrder=ORDER_CREATED': '#result.id' },
      { insertOrder: calls('createOrder') },
    ],
    [
      'two that call each other',
      two(
        create,
        'export function insertOrder(order) { return order.again ? createOrder(order) : { id: 1 }; }',
      ),
      { 'createOrder=ORDER_CREATED': '#result.id' },
      { insertOrder: calls('createOrder') },
    ],
    [
      'the inner one is called elsewhere too',
      two(create, insert, "import { insertOrder } from './orders.js'; insertOrder({ id: 2 });"),
      { 'createOrder=ORDER_CREATED': '#result.id' },
      {
        insertOrder:
          /^createOrder calls it: one call, one event; main\.js calls it too, which then makes no event$/,
      },
    ],
    [
      'about another matter, and called elsewhere too: both',
      two(
        'export async function createOrder(order) { await registerCustomer(order.customer); return { id: 1 }; }',
        'export function registerCustomer({ name, plan }) { return { id: 2, plan }; }',
        "import { registerCustomer } from './orders.js'; registerCustomer({});",
      ),
      { 'createOrder=ORDER_CREATED': '#result.id', 'registerCustomer=CUSTOMER_REGISTERED': '#result.id' },
      {},
    ],
    [
      'not called by one another: one for each event type',
      {
        ...two(create.replace('insertOrder(order)', '{ id: 1 }'), ''),
        'main.js': "import './orders.js'; import './order-store.js';",
        'order-store.js': 'export function createOrder(order) { return { id: 1 }; }',
      },
      { 'createOrder=ORDER_CREATED': '#result.id' },
      { createOrder: /^orders\.js makes the same event$/ },
    ],
  ];
  for (const [what, files, taken, left] of rows)
    it(what, async () => {
      const folder = temporaryFolder('init');
      writeFiles(folder, files);
      const { code, stdout, stderr } = await runSvc(['init', '--yes', '--json'], { cwd: folder });
      assert.equal(code, 0, stderr);
      interface Shown {
        readonly function: string;
        readonly eventType: string;
        readonly key: string | null;
        readonly reason: string;
      }
      const { targets, leftOut } = JSON.parse(stdout) as { targets: Shown[]; leftOut: Shown[] };
      const keys = targets.map(({ function: path, eventType, key }) => [`${path}=${eventType}`, key]);
      assert.deepEqual(Object.fromEntries(keys), taken);
      assert.deepEqual(leftOut.map((each) => each.function).sort(), Object.keys(left).sort());
      for (const { function: path, reason } of leftOut) assert.match(reason, left[path] as RegExp);
      assert.doesNotMatch(
        readFileSync(join(folder, 'svc.config.yaml'), 'utf8'),
        /payload: .*(?:iban|email|name)/,
      );

      // What svc check doubts is not proposed.
      const check = await runSvc(['check', '--json'], { cwd: folder });
      const { warnings } = JSON.parse(check.stdout) as { warnings: string[] };
      assert.deepEqual(
        warnings.filter((each) => /two events|same key/.test(each)),
        [],
      );
    });

  it('says what it left out and why, and ends with the next command', async () => {
    const folder = temporaryFolder('init');
    writeFiles(folder, shop);
    const { stderr } = await runSvc(['init', '--yes'], { cwd: folder });
    assert.deepEqual(stderr.split('\n').slice(1), [
      'left out:',
      '  ORDER_INSERTED  rows.js#insertOrder: placeOrder calls it: one call, one event',
      '  ORDER_UPDATED  rows.js#updateOrder: cancelOrder calls it: one call, one event',
      '  ORDER_CREATED  routes/orders.js#createOrder: it only hands on to placeOrder, which knows the outcome',
      '  fields that may be personal or secret: email',
      'package.json: script start:svc',
      'next: npx --no svc check',
      '',
    ]);
  });

  it('says which events have no key, and to build first', async () => {
    const folder = temporaryFolder('init');
    writeFiles(folder, {
      'package.json': billing['package.json'],
      'tsconfig.json': '{ "compilerOptions": { "outDir": "dist" } } // no source maps',
      'src/orders.ts': `export function createOrder(order: unknown) { return save(order); }
        export function cancelOrder(orderId: string) {}`,
    });
    const { stderr } = await runSvc(['init', '--yes'], { cwd: folder });
    assert.match(
      stderr,
      /^ {2}the key of ORDER_CREATED: the source shows no id; without one, its events have no order$/m,
    );
    assert.match(
      stderr,
      /^package\.json: script start:svc\nnext: set "sourceMap": true in tsconfig\.json, then run npm run build && npx --no svc check\n$/m,
    );
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
