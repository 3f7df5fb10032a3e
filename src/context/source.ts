import { hostname } from 'node:os';
import { dirname, resolve } from 'node:path';
import type { Context } from '@opentelemetry/api';
import type { Source } from '../envelope/envelope.ts';
import { type Manifest, nearestManifest } from '../ground/files.ts';
import { otelApi } from '../observe/otel-api.ts';
import { boundedText, type ContextScope, rawHeader } from './context-store.ts';

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
    const manifest = ownManifest(options.entry ?? process.argv[1], options.directory ?? process.cwd());
    serviceName ??= manifest?.name ?? null;
    serviceVersion ??= manifest?.version || null;
  }
  return { serviceName, serviceVersion, hostname: (options.readHostname ?? hostname)() || null };
}

/** Where the application runs, for people: such as `production`. */
export function environmentName(env: NodeJS.ProcessEnv = process.env): string | undefined {
  const attributes = resourceAttributes(env.OTEL_RESOURCE_ATTRIBUTES);
  // The second is how OpenTelemetry called it before 1.27.
  return (
    attributes.get('deployment.environment.name') ||
    attributes.get('deployment.environment') ||
    env.NODE_ENV ||
    undefined
  );
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

/** From the entry file upwards; an entry inside `node_modules` is a tool (pm2, next): then from the working directory. */
function ownManifest(entry: string | undefined, directory: string): Manifest | undefined {
  const path = entry === undefined ? undefined : resolve(directory, entry);
  const own = path !== undefined && !/[\\/]node_modules[\\/]/.test(path);
  // One without a name, `{"type":"module"}` inside `dist`, is not the application's.
  const isNamed = ({ name }: Manifest) => Boolean(name);
  return (own ? nearestManifest(dirname(path), isNamed) : undefined) ?? nearestManifest(directory, isNamed);
}

/**
 * One baggage entry: of OpenTelemetry's context where it carries baggage, else of the request's W3C `baggage` header.
 * `null` when there is none, or none fit for an event.
 */
export function baggageEntry(
  name: string,
  scope: ContextScope | undefined,
  active: Context | undefined,
): string | null {
  const api = otelApi();
  const baggage = api?.propagation.getBaggage(active ?? api.context.active());
  if (baggage !== undefined) return boundedText(baggage.getEntry(name)?.value);
  const header = scope === undefined ? null : rawHeader(scope, 'baggage');
  return header === null ? null : boundedText(entryOfHeader(header, name));
}

/** `name=value;property, …`: the first of that name counts; values are percent-encoded. */
function entryOfHeader(header: string, name: string): string | null {
  for (const member of header.split(',')) {
    const equals = member.indexOf('=');
    if (equals < 0 || member.slice(0, equals).trim() !== name) continue;
    const semicolon = member.indexOf(';', equals);
    return percentDecoded(member.slice(equals + 1, semicolon < 0 ? undefined : semicolon).trim());
  }
  return null;
}

/** `null` when the encoding is broken. */
function percentDecoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
