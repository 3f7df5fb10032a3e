import { installPacked } from '../../support/packed.ts';
import { telemetryDependencies } from './otel-app.ts';
import { subject } from './subject.ts';

/** An application without OpenTelemetry. signal-exit: what many tools bring along. */
export function plainApp(): string {
  return installPacked('plain', { 'signal-exit': '4.1.0' });
}

/** An application with the SDK of the line under test. */
export async function telemetryApp(): Promise<string> {
  const { otel } = await subject();
  return installPacked(`otel-${otel}`, telemetryDependencies[otel]);
}
