import { join } from 'node:path';
import type { StoredEvent, Unreadable } from '../../../publish/recovery-source.ts';
import { decodeEvent, decodeRecord } from '../../../publish/stored-record.ts';
import { routesFolder } from '../store-files.ts';
import { maxEventBytes, maxRouteBytes, readStored } from './open-stored.ts';
import { gone } from './still-there.ts';

/** The event of a file, with what `routes/` says about it. */
export async function readEventFile(directory: string, name: string): Promise<StoredEvent | Unreadable> {
  const value = await readStored(join(directory, name), maxEventBytes);
  if (typeof value === 'string') return { place: name, reason: value };
  const route = await readStored(join(directory, routesFolder, name), maxRouteBytes);
  // Without a route it would go where somebody else's says.
  if (typeof route === 'string' && route !== gone)
    return { place: name, reason: `its route, ${routesFolder}/${name}: ${route}` };
  const event =
    typeof route === 'string'
      ? (decodeRecord(value.toString(), name) ?? decodeEvent(value, undefined, name))
      : decodeEvent(value, route.toString(), name);
  return event ?? { place: name, reason: 'it holds no event' };
}
