import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Config } from '../../config/config.ts';
import { nearestManifest } from '../../ground/files/manifest.ts';
import { apiFoundFrom, foreignApi } from '../../observe/otel-api.ts';

/** A line where an SDK of OpenTelemetry that the application's package.json names finds a copy of the API that gives svc nothing. */
export function inspectOtel({ baseDir }: Config): string[] {
  const manifest = nearestManifest(baseDir);
  if (manifest === undefined) return [];
  const place = join(manifest.folder, 'package.json');
  const versions = [...manifest.dependencies, ...manifest.devDependencies]
    .filter((name) => /^@opentelemetry\/(?:sdk-|auto-instrumentations-)|^@vercel\/otel$/.test(name))
    .map((name) => apiFoundFrom(fileOf(name, place) ?? place)?.version);
  const lines = versions.map((version) => foreignApi(version)).filter((line) => line !== undefined);
  return [...new Set(lines)];
}

function fileOf(name: string, place: string): string | undefined {
  try {
    return createRequire(place).resolve(name);
  } catch {
    return undefined;
  }
}
