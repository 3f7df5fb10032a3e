/**
 * 32 bits that differ for texts that differ little (FNV-1a, with the last mixing step of MurmurHash3). Not cryptographic: a
 * start must not wait for `node:crypto` to load.
 */
export function spreadHash(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
