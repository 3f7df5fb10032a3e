import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, sep } from 'node:path';
import { installPacked } from '../../support/packed.ts';
import { telemetryDependencies } from './otel-app.ts';
import { type OtelLine, otelPackages, subject } from './subject.ts';

/** An application without OpenTelemetry. signal-exit: what many tools bring along; fastify: what the example needs. */
export function plainApp(): string {
  return installPacked('plain', { 'signal-exit': '4.1.0', fastify: '^5.12.8' });
}

/** An application without OpenTelemetry, with the other client of Kafka. */
export function platformaticApp(): string {
  return installPacked('platformatic', { '@platformatic/kafka': '^2.12.1' });
}

/** An application with the SDK of one line; default: of the line under test. */
export async function telemetryApp(line?: OtelLine): Promise<string> {
  const otel = line ?? (await subject()).otel;
  return installPacked(`otel-${otel}`, telemetryDependencies[otel]);
}

/** An application with the auto-instrumentations of one line. */
export function autoInstrumentedApp(otel: OtelLine): string {
  return installPacked(`auto-otel-${otel}`, { ...otelPackages[otel].auto, knex: '3.3.0', pg: '^8.23.1' });
}

let alone: string | undefined;

/**
 * An application that has svc and its dependencies and nothing of OpenTelemetry, not even the API. It lies outside of this
 * repository, whose own packages Node would find else.
 */
export function aloneApp(): string {
  if (alone !== undefined) return alone;
  const app = plainApp();
  const folder = mkdtempSync(join(tmpdir(), 'svc-alone-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const isWanted = (path: string): boolean =>
    !path.includes(`${sep}@opentelemetry`) && !path.startsWith(join(app, 'runs'));
  cpSync(app, folder, { recursive: true, filter: isWanted });
  alone = folder;
  return folder;
}
