import type { Manifest } from '../../ground/files/manifest.ts';
import type { Logger } from '../../observe/logger.ts';
import type { Application } from './application.ts';

/** What the SDK is started with. */
export interface Instruments {
  readonly instrumentations: readonly unknown[];
  /** Those that `OTEL_NODE_RESOURCE_DETECTORS` names and the SDK itself does not know. */
  readonly resourceDetectors?: readonly unknown[];
}

interface AutoInstrumentations {
  getNodeAutoInstrumentations(): readonly unknown[];
  getResourceDetectors?(): readonly unknown[];
}

const autoPackage = '@opentelemetry/auto-instrumentations-node';
const packagePrefix = '@opentelemetry/instrumentation-';

/**
 * All of `@opentelemetry/auto-instrumentations-node` where that is installed, else those whose packages the application's
 * package.json names. This list is the place for an instrumentation of svc's own.
 */
export function findInstrumentations(application: Application, logger: Logger): Instruments {
  if (application.fileOf(autoPackage) !== undefined) {
    const auto = application.load(autoPackage) as AutoInstrumentations;
    const instrumentations = auto.getNodeAutoInstrumentations();
    const isAsked = Boolean(process.env.OTEL_NODE_RESOURCE_DETECTORS?.trim());
    const resourceDetectors = isAsked ? auto.getResourceDetectors?.() : undefined;
    return { instrumentations, ...(resourceDetectors && { resourceDetectors }) };
  }
  const named = namesIn(application.manifest).filter((name) => name.startsWith(packagePrefix));
  const instrumentations = named
    .filter((name) => isWanted(name.slice(packagePrefix.length)))
    .flatMap((name) => instancesOf(name, application, logger));
  if (named.length === 0)
    logger.warn(
      `svc.telemetry.sdk: node finds no instrumentations, so requests and queries make no spans: npm install ${autoPackage}`,
    );
  return { instrumentations };
}

function namesIn(manifest: Manifest | undefined): readonly string[] {
  return manifest === undefined ? [] : [...manifest.dependencies, ...manifest.devDependencies];
}

/** The variables of the auto-instrumentations, for packages that are installed one by one. */
function isWanted(shortName: string): boolean {
  const listed = (variable: string): string[] =>
    (process.env[variable] ?? '')
      .split(',')
      .map((name) => name.trim())
      .filter(Boolean);
  const enabled = listed('OTEL_NODE_ENABLED_INSTRUMENTATIONS');
  const disabled = listed('OTEL_NODE_DISABLED_INSTRUMENTATIONS');
  return (enabled.length === 0 || enabled.includes(shortName)) && !disabled.includes(shortName);
}

/** Of each class that the package calls an instrumentation; none where it cannot be loaded, which is said. */
function instancesOf(name: string, application: Application, logger: Logger): unknown[] {
  try {
    const exported = application.load(name) as Record<string, unknown>;
    const classes = Object.keys(exported)
      .filter((key) => key.endsWith('Instrumentation'))
      .map((key) => exported[key])
      .filter((value) => typeof value === 'function');
    return [...new Set(classes)].map((each) => Reflect.construct(each as () => unknown, []));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    logger.warn(`${name} cannot be used: ${reason.split('\n')[0]}`);
    return [];
  }
}
