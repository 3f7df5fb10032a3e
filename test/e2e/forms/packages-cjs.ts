import type { Form } from './form.ts';

const kind = 'package-cjs';

const manifest = (name: string, fields: object): string => JSON.stringify({ name, version: '1.0.0', ...fields });

/** Packages in node_modules, in an application that is CommonJS. */
export const packageCjsForms: readonly Form[] = [
  {
    id: 'package-cjs-exports',
    title: 'CommonJS package required: exports, prototype, static, nested path, destructured or not',
    kind,
    files: {
      '/node_modules/pkg-cjs/package.json': manifest('pkg-cjs', { main: 'lib' }),
      '/node_modules/pkg-cjs/lib/index.js': `exports.charge = async (id) => id;
class Stripe {
  async create(id) { return id; }
  static open(id) { return new Stripe(id); }
}
exports.Stripe = Stripe;
exports.nested = { deep: { call: (id) => id } };
`,
    },
    targets: [
      { module: 'pkg-cjs', function: 'charge' },
      { module: 'pkg-cjs', function: 'Stripe.prototype.create' },
      { module: 'pkg-cjs', function: 'Stripe.open' },
      { module: 'pkg-cjs', function: 'nested.deep.call' },
    ],
    call: `const stripe = require('pkg-cjs');
const { charge, Stripe } = stripe;
module.exports = async () => [await charge(1), await stripe.charge(2), await Stripe.open().create(3), stripe.nested.deep.call(4)];`,
    returns: [1, 2, 3, 4],
    events: { charge: 2, 'Stripe.prototype.create': 1, 'Stripe.open': 1, 'nested.deep.call': 1 },
  },
  {
    id: 'package-cjs-function',
    title: 'CommonJS package required whose `module.exports` is a function, and what that function returns',
    kind,
    files: {
      '/node_modules/pkg-fn/package.json': manifest('pkg-fn', { main: 'index.js' }),
      '/node_modules/pkg-fn/index.js': 'module.exports = function connect(key) { return { send: (id) => key + id }; };\nmodule.exports.version = 3;\n',
    },
    targets: [
      { module: 'pkg-fn', function: 'default' },
      { module: 'pkg-fn', function: 'default().send' },
    ],
    call: `const connect = require('pkg-fn');
module.exports = () => [connect('a').send(1), connect('b').send(2), connect.name, connect.length, connect.version];`,
    returns: ['a1', 'b2', 'connect', 1, 3],
    events: { default: 2, 'default().send': 2 },
  },
  {
    id: 'package-cjs-getter',
    title: 'CommonJS package required whose exports are getters (esbuild, swc, TypeScript)',
    kind,
    files: {
      '/node_modules/pkg-getters/package.json': manifest('pkg-getters', { main: 'index.js' }),
      '/node_modules/pkg-getters/index.js': `"use strict";
Object.defineProperty(module.exports, "__esModule", { value: true });
Object.defineProperty(module.exports, "send", { get: () => send, enumerable: true });
async function send(id) { return id; }
`,
    },
    targets: [{ module: 'pkg-getters', function: 'send' }],
    call: `const { send } = require('pkg-getters');
module.exports = async () => [await send(1), await require('pkg-getters').send(2)];`,
    returns: [1, 2],
    events: { send: 2 },
  },
  {
    id: 'package-subpath',
    title: 'Subpath of a package (`pkg/lib/orders`), required by a file of another folder',
    kind,
    files: {
      'deep/call.cjs': "module.exports = require('pkg-sub/lib/orders').create;\n",
      '/node_modules/pkg-sub/package.json': manifest('pkg-sub', {}),
      '/node_modules/pkg-sub/lib/orders.js': 'exports.create = (id) => id;\n',
    },
    targets: [{ module: 'pkg-sub/lib/orders', function: 'create' }],
    call: `const create = require('./deep/call.cjs');
module.exports = () => [create(1), create(2)];`,
    returns: [1, 2],
    events: { create: 2 },
  },
];
