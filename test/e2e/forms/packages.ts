import type { Form } from './form.ts';

const kind = 'package';

const manifest = (name: string, fields: object): string => JSON.stringify({ name, version: '1.0.0', ...fields });

/** Exports of packages that others wrote, in node_modules. */
export const packageForms: readonly Form[] = [
  {
    id: 'package-esm',
    title: 'ES module package: named, default, namespace import, `import()`',
    kind,
    files: {
      '/node_modules/pkg-esm/package.json': manifest('pkg-esm', { type: 'module', exports: './index.js' }),
      '/node_modules/pkg-esm/index.js': `export async function charge(amount) { return { amount }; }
export const refund = (amount) => -amount;
export default function pay(amount) { return amount * 2; }
`,
    },
    targets: [
      { module: 'pkg-esm', function: 'charge' },
      { module: 'pkg-esm', function: 'refund' },
      { module: 'pkg-esm', function: 'default' },
    ],
    call: `import pay, { charge, refund } from 'pkg-esm';
import * as all from 'pkg-esm';
export default async () => [await charge(1), refund(2), pay(3), await all.charge(4), all.default(5), (await import('pkg-esm')).refund(6)];`,
    returns: [{ amount: 1 }, -2, 6, { amount: 4 }, 10, -6],
    events: { charge: 2, refund: 2, default: 2 },
    payloads: { charge: [{ amount: 1 }, { amount: 4 }] },
  },
  {
    id: 'package-esm-reexport',
    title: 'ES module package whose entry exports inner files, and a subpath of it',
    kind,
    files: {
      '/node_modules/pkg-barrel/package.json': manifest('pkg-barrel', {
        type: 'module',
        exports: { '.': './index.js', './sub': './sub.js' },
      }),
      '/node_modules/pkg-barrel/index.js': "export * from './inner.js';\nexport { inner as renamed } from './inner.js';\nexport * as space from './inner.js';\n",
      '/node_modules/pkg-barrel/inner.js': 'export function inner(id) { return id; }\n',
      '/node_modules/pkg-barrel/sub.js': 'export const sub = async (id) => id;\n',
    },
    targets: [
      { module: 'pkg-barrel', function: 'inner' },
      { module: 'pkg-barrel/sub', function: 'sub' },
    ],
    call: `import { inner } from 'pkg-barrel';
import { sub } from 'pkg-barrel/sub';
export default async () => [inner(1), await sub(2)];`,
    returns: [1, 2],
    events: { inner: 1, sub: 1 },
  },
  {
    id: 'package-self-call',
    title: 'Call that a package makes to its own export, from inside',
    kind,
    files: {
      '/node_modules/pkg-self/package.json': '{ "name": "pkg-self", "version": "1.0.0", "type": "module", "exports": "./index.js" }',
      '/node_modules/pkg-self/index.js': 'export function send(id) { return id; }\nexport const sendAll = (ids) => ids.map((id) => send(id));\n',
    },
    targets: [{ module: 'pkg-self', function: 'send' }],
    call: `import { send, sendAll } from 'pkg-self';
export default () => [send(1), sendAll([2, 3])];`,
    returns: [1, [2, 3]],
    events: { send: 3 },
  },
  {
    id: 'package-prototype',
    title: 'Class of a package: prototype, static, nested path (`Client.prototype.orders.create`)',
    kind,
    files: {
      '/node_modules/pkg-class/package.json': manifest('pkg-class', { type: 'module', exports: './index.js' }),
      '/node_modules/pkg-class/index.js': `export class Client {
  constructor(key) { this.key = key; }
  async send(id) { return this.key + id; }
  static open(key) { return new Client(key); }
}
export const api = { v1: { orders: { create(id) { return id; } } } };
`,
    },
    targets: [
      { module: 'pkg-class', function: 'Client.prototype.send' },
      { module: 'pkg-class', function: 'Client.open' },
      { module: 'pkg-class', function: 'api.v1.orders.create' },
    ],
    call: `import { api, Client } from 'pkg-class';
export default async () => [await new Client('k').send(1), await Client.open('o').send(2), api.v1.orders.create(3)];`,
    returns: ['k1', 'o2', 3],
    events: { 'Client.prototype.send': 2, 'Client.open': 1, 'api.v1.orders.create': 1 },
  },
  {
    id: 'package-factory',
    title: 'Method of what a function of a package returns (`createClient().send`)',
    kind,
    files: {
      '/node_modules/pkg-factory/package.json': manifest('pkg-factory', { type: 'module', exports: './index.js' }),
      '/node_modules/pkg-factory/index.js': `export const createClient = (key) => ({ async send(id) { return key + id; } });
export default async function connect(key) { return { async send(id) { return key + id; } }; }
`,
    },
    targets: [
      { module: 'pkg-factory', function: 'createClient().send' },
      { module: 'pkg-factory', function: 'default().send' },
    ],
    call: `import connect, { createClient } from 'pkg-factory';
export default async () => [await createClient('a').send(1), await (await connect('b')).send(2)];`,
    returns: ['a1', 'b2'],
    events: { 'createClient().send': 1, 'default().send': 1 },
  },
  {
    id: 'package-cjs-from-esm',
    title: 'CommonJS package imported from an ES module: named, default, namespace, `createRequire`',
    kind,
    files: {
      '/node_modules/pkg-cjs/package.json': manifest('pkg-cjs', { main: 'index.js' }),
      '/node_modules/pkg-cjs/index.js': `exports.charge = async function charge(id) { return id; };
class Stripe { async create(id) { return id; } }
exports.Stripe = Stripe;
exports.nested = { deep: { call: (id) => id } };
`,
    },
    targets: [
      { module: 'pkg-cjs', function: 'charge' },
      { module: 'pkg-cjs', function: 'Stripe.prototype.create' },
      { module: 'pkg-cjs', function: 'nested.deep.call' },
    ],
    call: `import { createRequire } from 'node:module';
import stripe, { charge, Stripe } from 'pkg-cjs';
import * as all from 'pkg-cjs';
const required = createRequire(import.meta.url)('pkg-cjs');
export default async () => [
  await charge(1), await stripe.charge(2), await all.charge(3), await required.charge(4),
  await new Stripe().create(5), all.nested.deep.call(6),
];`,
    returns: [1, 2, 3, 4, 5, 6],
    events: { charge: 4, 'Stripe.prototype.create': 1, 'nested.deep.call': 1 },
  },
  {
    id: 'package-cjs-default',
    title: 'CommonJS package whose `module.exports` is a function or a class',
    kind,
    files: {
      '/node_modules/pkg-fn/package.json': manifest('pkg-fn', { main: 'index.js' }),
      '/node_modules/pkg-fn/index.js': 'module.exports = function send(id) { return id; };\nmodule.exports.helper = (id) => -id;\n',
    },
    targets: [
      { module: 'pkg-fn', function: 'default' },
      { module: 'pkg-fn', function: 'helper' },
    ],
    call: `import { createRequire } from 'node:module';
import send, { helper } from 'pkg-fn';
const required = createRequire(import.meta.url)('pkg-fn');
export default () => [send(1), required(2), helper(3), required.helper(4), required.name, send.length];`,
    returns: [1, 2, -3, -4, 'send', 1],
    events: { default: 2, helper: 2 },
  },
  {
    id: 'package-cjs-getters',
    title: 'Exports that are getters, as esbuild, swc and TypeScript write them',
    kind,
    files: {
      '/node_modules/pkg-getters/package.json': manifest('pkg-getters', { main: 'index.js' }),
      '/node_modules/pkg-getters/index.js': `"use strict";
var __defProp = Object.defineProperty;
var __export = (target, all) => { for (var name in all) __defProp(target, name, { get: all[name], enumerable: true }); };
var __toCommonJS = (mod) => __defProp(Object.defineProperties({}, Object.getOwnPropertyDescriptors(mod)), "__esModule", { value: true });
var src_exports = {};
__export(src_exports, { send: () => send, Client: () => Client });
module.exports = __toCommonJS(src_exports);
async function send(id) { return id; }
class Client { ping(id) { return id; } }
0 && (module.exports = { send, Client });
`,
      '/node_modules/pkg-bridge/package.json': manifest('pkg-bridge', { main: 'index.js' }),
      '/node_modules/pkg-bridge/index.js': `"use strict";
Object.defineProperty(exports, "__esModule", { value: true });
var inner = require("./inner.js");
Object.defineProperty(exports, "deliver", { enumerable: true, get: function () { return inner.deliver; } });
`,
      '/node_modules/pkg-bridge/inner.js': 'exports.deliver = (id) => id;\n',
    },
    targets: [
      { module: 'pkg-getters', function: 'send' },
      { module: 'pkg-getters', function: 'Client.prototype.ping' },
      { module: 'pkg-bridge', function: 'deliver' },
    ],
    call: `import { createRequire } from 'node:module';
import { Client, send } from 'pkg-getters';
import { deliver } from 'pkg-bridge';
const require = createRequire(import.meta.url);
export default async () => [await send(1), await require('pkg-getters').send(2), new Client().ping(3), deliver(4), require('pkg-bridge').deliver(5)];`,
    returns: [1, 2, 3, 4, 5],
    events: { send: 2, 'Client.prototype.ping': 1, deliver: 2 },
  },
  {
    id: 'package-scoped',
    title: 'Scoped package, and a dual package loaded as ES module and as CommonJS',
    kind,
    files: {
      '/node_modules/@forms/dual/package.json': manifest('@forms/dual', {
        exports: { '.': { import: './index.mjs', require: './index.cjs' } },
      }),
      '/node_modules/@forms/dual/index.mjs': 'export const send = (id) => `esm ${id}`;\n',
      '/node_modules/@forms/dual/index.cjs': 'exports.send = (id) => `cjs ${id}`;\n',
    },
    targets: [{ module: '@forms/dual', function: 'send' }],
    call: `import { createRequire } from 'node:module';
import { send } from '@forms/dual';
const required = createRequire(import.meta.url)('@forms/dual');
export default () => [send(1), required.send(2)];`,
    returns: ['esm 1', 'cjs 2'],
    events: { send: 2 },
  },
  {
    id: 'package-builtin',
    title: "Node's own modules (`node:querystring`)",
    kind,
    files: {},
    targets: [{ module: 'node:querystring', function: 'escape' }],
    call: `import querystring, { escape } from 'node:querystring';
import { createRequire } from 'node:module';
export default () => [querystring.escape('a b'), escape('c d'), createRequire(import.meta.url)('node:querystring').escape('e f')];`,
    returns: ['a%20b', 'c%20d', 'e%20f'],
    events: { escape: 3 },
  },
];
