import { closeSync, openSync, readSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';
import { threadId } from 'node:worker_threads';
import { spreadHash } from '../ground/claims/spread-hash.ts';
import { randomWords } from './random-words.ts';

/** Set by Kubernetes through its downward API, by ECS, Lambda, App Service, Nomad, Fly and Heroku; differ by instance. */
const variables = [
  ...['POD_IP', 'POD_NAME', 'POD_UID', 'HOSTNAME', 'ECS_CONTAINER_METADATA_URI_V4'],
  ...['AWS_LAMBDA_LOG_STREAM_NAME', 'WEBSITE_INSTANCE_ID', 'NOMAD_ALLOC_ID', 'FLY_MACHINE_ID', 'DYNO'],
];
/** Hold the id of the container, or paths with it, whichever runtime made it. */
const containerFiles = ['/proc/self/cgroup', '/proc/self/mountinfo'];
const maxFileBytes = 16 * 1024;
/** The rest is long, and the same everywhere. */
const longIds = /[\da-f-]{12,}/g;

/** A worker id below `count`, drawn anew at each start: what has one host name and process id, as containers have, differs. */
export function deriveWorkerId(count: number): number {
  const now = `${Date.now()}|${process.hrtime.bigint()}`;
  return spreadHash([...instanceTraits(), now, ...randomWords(4)].join('|')) % count;
}

/** What tells this thread from those of other hosts and containers. Never throws. */
export function instanceTraits(env: NodeJS.ProcessEnv = process.env): string[] {
  return [
    ...[hostname(), String(process.pid), String(threadId)],
    ...variables.map((name) => env[name] ?? ''),
    addresses(),
    ...containerFiles.map((path) => beginningOf(path).match(longIds)?.join() ?? ''),
  ];
}

function addresses(): string {
  try {
    const all = Object.values(networkInterfaces()).flatMap((one) => one ?? []);
    return all
      .filter(({ internal }) => !internal)
      .map(({ address, mac }) => `${address} ${mac}`)
      .join();
  } catch {
    // Some sandboxes refuse to tell.
    return '';
  }
}

function beginningOf(path: string): string {
  try {
    const file = openSync(path, 'r');
    try {
      const bytes = Buffer.alloc(maxFileBytes);
      return bytes.toString('latin1', 0, readSync(file, bytes));
    } finally {
      closeSync(file);
    }
  } catch {
    return '';
  }
}
