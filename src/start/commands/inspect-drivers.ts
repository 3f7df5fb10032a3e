import type { Config } from '../../config/config.ts';
import { nearestManifest } from '../../ground/files/manifest.ts';
import { dialectOf } from '../../transaction/dialect.ts';
import { foreignDrivers, foreignText } from '../outbox/foreign-drivers.ts';

/** Drivers that the application's package.json names, and that svc cannot follow: a line each. */
export function inspectDrivers({ outbox, baseDir }: Config): string[] {
  if (!outbox.enabled) return [];
  const wanted = dialectOf(outbox.datasource.url ?? '');
  const named = nearestManifest(baseDir)?.dependencies ?? [];
  return foreignDrivers
    .filter(({ specifier, dialect }) => dialect === wanted && named.includes(specifier))
    .map(({ specifier }) => `svc.outbox: package.json names ${specifier}; ${foreignText(specifier)}`);
}
