import { closeSync, openSync, readSync } from 'node:fs';
import { threadId } from 'node:worker_threads';
import { spreadHash } from '../ground/claims/spread-hash.ts';

/** Draws a whole number from 0 to 2^32 - 1. */
export type DrawWord = () => number;

/**
 * Random 32-bit words that differ between processes. From the system, without `node:crypto`, which takes 8 ms to load.
 *
 * @param devicePath for tests
 */
export function randomWords(count: number, devicePath = '/dev/urandom'): Uint32Array {
  const words = new Uint32Array(count);
  try {
    const device = openSync(devicePath, 'r');
    try {
      if (readSync(device, words) === words.byteLength) return words;
    } finally {
      closeSync(device);
    }
  } catch {
    // Windows has none.
  }
  // Applications replace Math.random by one that draws the same in each process: time and number are mixed in.
  const mixedIn = `${process.pid}|${threadId}|${process.hrtime.bigint()}|${Date.now()}`;
  return words.map((_, index) => Math.floor(Math.random() * 2 ** 32) ^ spreadHash(`${mixedIn}|${index}`));
}

/**
 * Words in quick succession (sfc32 by Chris Doty-Humphrey), from a seed of four. Not `Math.random`: an application that
 * replaces it by one that repeats would draw alike in all of its processes.
 */
export function createWordSource(seed: Uint32Array = randomWords(4)): DrawWord {
  let [a = 0, b = 0, c = 0, counter = 1] = seed;
  const draw: DrawWord = () => {
    const sum = (a + b + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + sum;
    return sum >>> 0;
  };
  // The first ones still resemble the seed.
  for (let round = 0; round < 12; round++) draw();
  return draw;
}
