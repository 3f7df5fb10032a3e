import { parentPort } from 'node:worker_threads';
import type { Reading } from './readings.ts';

const sums = new Map<string, number>();

/** Runs in a thread of its own: what it publishes leaves from there. */
function add({ meter, kwh }: Reading): { meter: string; sum: number } {
  const sum = (sums.get(meter) ?? 0) + kwh;
  sums.set(meter, sum);
  return { meter, sum };
}

parentPort?.on('message', (reading: Reading | null) => {
  if (reading === null) parentPort?.close();
  else add(reading);
});
