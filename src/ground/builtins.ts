import type * as Crypto from 'node:crypto';
import type * as Net from 'node:net';

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
