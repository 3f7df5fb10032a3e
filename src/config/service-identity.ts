import { readFileSync } from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';
import type { Environment } from './env.ts';

export interface ServiceIdentity {
  /** `null`: nothing says it. */
  readonly name: string | null;
  readonly version: string | null;
}

/**
 * Where to look for the application's package.json, best first: beside the script that Node runs (unless that is a tool
 * such as `next` inside node_modules), the working directory, the folder of the configuration.
 */
export function applicationFolders(entry: string | undefined, cwd: string, baseDir: string): string[] {
  const isOwn = entry !== undefined && entry !== '' && !entry.split(sep).includes('node_modules');
  // The script's own path first: `node ./app` names a folder.
  return isOwn ? [resolve(cwd, entry), cwd, baseDir] : [cwd, baseDir];
}

/** What the service is called where the configuration does not say: OpenTelemetry's variables, then package.json. */
export function serviceIdentity(env: Environment, folders: readonly string[]): ServiceIdentity {
  const attributes = resourceAttributes(env.OTEL_RESOURCE_ATTRIBUTES);
  const name = env.OTEL_SERVICE_NAME?.trim() || attributes.get('service.name');
  const version = attributes.get('service.version');
  if (name && version) return { name, version };
  const manifest = nearestManifest(folders);
  return { name: name || textOf(manifest?.name), version: version || textOf(manifest?.version) };
}

/** `key=value,key=value`, values percent-encoded. */
function resourceAttributes(text: string | undefined): Map<string, string> {
  const attributes = new Map<string, string>();
  for (const pair of (text ?? '').split(',')) {
    const [key = '', ...value] = pair.split('=');
    try {
      attributes.set(key.trim(), decodeURIComponent(value.join('=').trim()));
    } catch {
      // As OpenTelemetry does: what cannot be decoded is left out.
    }
  }
  return attributes;
}

function nearestManifest(folders: readonly string[]): Record<string, unknown> | undefined {
  for (const start of folders) {
    for (let folder = start; ; folder = dirname(folder)) {
      const manifest = readManifest(join(folder, 'package.json'));
      if (manifest !== undefined) return manifest;
      if (dirname(folder) === folder) break;
    }
  }
  return undefined;
}

/** A package.json without a name only says "type": "module" for a folder: it is passed over. */
function readManifest(path: string): Record<string, unknown> | undefined {
  try {
    const manifest: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (typeof manifest !== 'object' || manifest === null || !('name' in manifest)) return undefined;
    return manifest as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}
