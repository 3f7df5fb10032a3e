import type * as Crypto from 'node:crypto';
import type * as Net from 'node:net';
import timers from 'node:timers';
import promises from 'node:timers/promises';

/**
 * Node's original timers. An application may replace the globals, as tests do, and svc's own timers must not stop then. The
 * build substitutes these for the globals (tsdown.config.ts). Unbuilt sources use the globals, so that a test sets the time of
 * both.
 */
export const { clearImmediate, clearInterval, clearTimeout, setImmediate, setInterval, setTimeout } = timers;
export const { queueMicrotask } = globalThis;
export const { nextTick } = process;
export const { setTimeout: sleep, setImmediate: nextTurn } = promises;

// Modules of Node that take milliseconds to load and that many applications never need.

let crypto: typeof Crypto | undefined;
let net: typeof Net | undefined;

export function nodeCrypto(): typeof Crypto {
  crypto ??= process.getBuiltinModule('node:crypto');
  return crypto;
}

export function nodeNet(): typeof Net {
  net ??= process.getBuiltinModule('node:net');
  return net;
}
