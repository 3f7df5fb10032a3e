import * as fs from 'node:fs';
import { promisify } from 'node:util';

// What writing takes of node:fs/promises, which costs a start a millisecond to load.
export const access = promisify(fs.access);
export const close = promisify(fs.close);
export const fstat = promisify(fs.fstat);
export const ftruncate = promisify(fs.ftruncate);
export const mkdir = promisify(fs.mkdir);
export const open = promisify(fs.open);
export const read = promisify(fs.read);
export const write = promisify(fs.write);
