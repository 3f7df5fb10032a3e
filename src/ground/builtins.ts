import type * as Crypto from 'node:crypto';
import type * as Net from 'node:net';
import timers from 'node:timers';
import promises from 'node:timers/promises';

/**
 * Node's own timers, as they are before an application replaces them: its tests do, and then nothing of what svc has put off would
 * come, and who waits for an event would wait forever. The build puts these in place of the globals (tsdown.config.ts); sources
 * that are tested have the globals, so that the time of both is set at once.
 */
export const { clearImmediate, clearInterval, clearTimeout, setImmediate, setInterval, setTimeout } = timers;
export const { queueMicrotask } = globalThis;
export const { nextTick } = process;
export const { setTimeout: sleep, setImmediate: nextTurn } = promises;

// Modules of Node that take milliseconds to load and that many applications never need: loaded at their first use.

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
