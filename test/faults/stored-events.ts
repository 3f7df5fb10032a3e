import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { callIn } from './read-topics.ts';

/** An event in a backup, found by reading its files. */
export interface StoredEvent {
  readonly eventId: string;
  readonly key: string;
  readonly number: number;
  /** Neither its topic nor the dead letter topic has taken it: a dead letter in the backup. */
  readonly isRefused?: boolean;
}

/** All events below a folder: of a local backup, what was sent from there among it, or of a bucket. */
export function storedEvents(folder: string): StoredEvent[] {
  if (!existsSync(folder)) return [];
  const found: StoredEvent[] = [];
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const file = join(folder, name);
    if (/(^|\/)routes\//.test(name)) continue;
    if (name.endsWith('.json')) {
      const eventId = basename(name, '.json');
      found.push(eventOf(read(file), eventId, routeOf(file, eventId)));
    } else if (/segment-.*\.ndjson(\.open)?$/.test(name)) {
      const lines = read(file).split('\n').filter(Boolean);
      for (const line of lines) {
        const route: Route = JSON.parse(line);
        found.push(eventOf(line, route.eventId, route));
      }
    }
  }
  return found;
}

/** How many events wait in a local backup: what was sent is below `recovered/`. */
export function waitingCount(folder: string): number {
  if (!existsSync(folder)) return 0;
  return readdirSync(folder).filter((name) => name.endsWith('.json') || /\.ndjson(\.open)?$/.test(name))
    .length;
}

function read(file: string): string {
  return readFileSync(file, 'utf8');
}

interface Route {
  readonly eventId: string;
  readonly backupReason: string;
}

function routeOf(file: string, eventId: string): Partial<Route> {
  const route = join(dirname(file), 'routes', `${eventId}.json`);
  return existsSync(route) ? JSON.parse(read(route)) : {};
}

function eventOf(text: string, eventId: string, { backupReason }: Partial<Route>): StoredEvent {
  const call = callIn(text);
  if (call.key === '-') throw new Error(`a file of the backup holds no event: ${text.slice(0, 80)}`);
  return { eventId, ...call, isRefused: backupReason === 'MESSAGE_TOO_LARGE' };
}
