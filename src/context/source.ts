import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import type { Source } from '../envelope/envelope.ts';
import { percentDecoded } from './baggage.ts';

export interface SourceOptions {
  /** From the configuration: goes first. */
  readonly name?: string | null | undefined;
  readonly version?: string | null | undefined;
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** The application's entry file. Default: `process.argv[1]`. */
  readonly entry?: string | undefined;
  /** Default: the working directory. */
  readonly directory?: string | undefined;
  readonly readHostname?: (() => string) | undefined;
}

/**
 * Name and version of the application, each from the first that knows it: the configuration, `OTEL_SERVICE_NAME`,
 * `OTEL_RESOURCE_ATTRIBUTES`, the nearest `package.json` with a name. `null` where nobody does. Call it once, at start.
 */
export function readSource(options: SourceOptions = {}): Source {
  const env = options.env ?? process.env;
  const attributes = resourceAttributes(env.OTEL_RESOURCE_ATTRIBUTES);
  let serviceName = options.name || env.OTEL_SERVICE_NAME || attributes.get('service.name') || null;
  let serviceVersion = options.version || attributes.get('service.version') || null;
  if (serviceName === null || serviceVersion === null) {
    const manifest = nearestManifest(options.entry ?? process.argv[1], options.directory ?? process.cwd());
    serviceName ??= manifest?.name ?? null;
    serviceVersion ??= manifest?.version ?? null;
  }
  return { serviceName, serviceVersion, hostname: (options.readHostname ?? hostname)() || null };
}

/** `key=value,…`, values percent-encoded; an entry that is broken is left out. */
function resourceAttributes(text: string | undefined): Map<string, string> {
  const attributes = new Map<string, string>();
  for (const entry of (text ?? '').split(',')) {
    const equals = entry.indexOf('=');
    if (equals < 0) continue;
    const value = percentDecoded(entry.slice(equals + 1).trim());
    if (value) attributes.set(entry.slice(0, equals).trim(), value);
  }
  return attributes;
}

interface Manifest {
  readonly name: string;
  readonly version: string | null;
}

/** From the entry file upwards; an entry inside `node_modules` is a tool (pm2, next): then from the working directory. */
function nearestManifest(entry: string | undefined, directory: string): Manifest | null {
  const path = entry === undefined ? undefined : resolve(directory, entry);
  const own = path !== undefined && !/[\\/]node_modules[\\/]/.test(path);
  return (own ? manifestAbove(dirname(path)) : null) ?? manifestAbove(directory);
}

function manifestAbove(start: string): Manifest | null {
  for (let directory = start; ; directory = dirname(directory)) {
    const manifest = readManifest(join(directory, 'package.json'));
    if (manifest !== null) return manifest;
    if (dirname(directory) === directory) return null;
  }
}

/** `null` for a file without a name too: `{"type":"module"}` inside `dist` is not the application's. */
function readManifest(path: string): Manifest | null {
  try {
    const { name, version } = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
    if (typeof name !== 'string' || name === '') return null;
    return { name, version: typeof version === 'string' && version !== '' ? version : null };
  } catch {
    return null;
  }
}
