import { isAbsolute, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { DiagLogger, MeterProvider, TracerProvider } from '@opentelemetry/api';
import type { InstrumentationConfig } from '@opentelemetry/instrumentation';
import { flatten } from '../../config/check/check.ts';
import type { SvcConfig } from '../../config/define-config.ts';
import { loadConfig } from '../../config/read/load.ts';
import type { SvcError } from '../../ground/errors.ts';
import { loadChunk, shared } from '../../ground/lifecycle.ts';
import { notStartedExitCode, unsupportedNode } from '../../ground/version.ts';
import { consoleLogger, logger, stderrLogger } from '../../observe/logger.ts';
import { setProviders } from '../../observe/otel-api.ts';
import type * as Preload from '../preload.ts';

/**
 * The options of `svc.config.*` in code. They have priority over the file and the environment, which also apply. With
 * `enabled: false`, capture starts with `enable()`, which `NodeSDK` and `registerInstrumentations` call.
 */
export interface SvcInstrumentationConfig extends InstrumentationConfig, SvcConfig {}

// Not an import: a shared chunk would be one more file for `svc/register` to load.
const { isLauncher, lastResort, run, running } = loadChunk(
  import.meta.url,
  '../preload.ts',
) as typeof Preload;
type Running = Preload.Running;

/** The settings of one SvcInstrumentation while it is in charge. */
interface Given {
  tracers?: TracerProvider;
  meters?: MeterProvider;
  /** The configuration in code with which svc was started or joined. */
  code?: object | undefined;
  diag?: DiagLogger | undefined;
}

interface Instrumentations {
  /** The instrumentation for which svc runs. Others do nothing. */
  inCharge: object | undefined;
  readonly given: WeakMap<object, Given>;
}

const state = shared<Instrumentations>('instrumentations', () => ({
  inCharge: undefined,
  given: new WeakMap(),
}));

/** Each `disable()` waits for the end, but it is logged once. */
const ended = new WeakSet<Running>();

interface Around {
  readonly problem: SvcError | undefined;
  readonly diag: DiagLogger | undefined;
}

/** Switches svc for one instrumentation. */
export function controlOf(who: object) {
  const given = givenTo(who);
  return {
    /** Starts svc for this instrumentation, resumes a paused one, or joins the one that `svc/register` started. */
    enable(config: SvcInstrumentationConfig, { problem, diag }: Around): void {
      if (isLauncher(process.argv)) return;
      const code = codeOf(config);
      given.diag = diag;
      try {
        const tooOld = unsupportedNode(process.versions.node);
        if (problem !== undefined) sayNotStarted(problem.message, code, { code: problem.code });
        else if (tooOld !== undefined) sayNotStarted(tooOld, code);
        else if (getRunning(who, given, code)) {
          takeCharge(who, given);
          given.code = code;
        }
      } catch (error) {
        sayNotStarted(`could not start: ${error instanceof Error ? error.message : 'unknown error'}`, code);
      }
    },

    /** Stops capture, also of an svc that was started otherwise. */
    disable(): void {
      if (state.inCharge !== who) return;
      state.inCharge = undefined;
      const current = running();
      if (current === undefined || current.isPaused) return;
      const count = current.pending();
      logger.info(
        `switched off by disable()${count === 0 ? '' : `: ${count} ${count === 1 ? 'event' : 'events'} in flight continue`}`,
      );
      given.diag?.debug('disabled');
      void current.pause().then(() => {
        if (!current.hasEnded || ended.has(current)) return;
        ended.add(current);
        logger.info('ended after disable()');
        if (state.inCharge === undefined) setProviders({});
      });
    },

    configure(config: SvcInstrumentationConfig): void {
      const current = running();
      if (state.inCharge !== who || current === undefined) return;
      const names = changedNames(given.code, codeOf(config));
      if (names.length > 0)
        warn(given, `setConfig(): ${names.join(', ')} takes effect after disable() and enable()`);
    },

    setTracerProvider(provider: TracerProvider): void {
      given.tracers = provider;
      if (state.inCharge === who) setProviders(given);
    },

    setMeterProvider(provider: MeterProvider): void {
      // An SDK may set a no-op provider first: once another is registered, that one counts.
      if (keepsNothing(provider)) delete given.meters;
      else given.meters = provider;
      if (state.inCharge === who) setProviders(given);
    },

    /** Absolute paths of files, and packages, that targets name. */
    modulesOf(config: SvcInstrumentationConfig): string[] {
      const code = codeOf(config);
      const { targets, baseDir } = running()?.config ?? loadConfig(code === undefined ? {} : { code }).config;
      const isFile = (module: string): boolean => /^\.{1,2}\//.test(module) || isAbsolute(module);
      return [...new Set(targets.map(({ module }) => (isFile(module) ? resolve(baseDir, module) : module)))];
    },
  };
}

function getRunning(who: object, given: Given, code: object | undefined): boolean {
  const current = running();
  if (current === undefined || current.isPaused) return startOrGoOn(current, given, code);
  if (state.inCharge !== undefined) {
    sayOccupied(who, given, code);
    return false;
  }
  join(given, code);
  return true;
}

/** True for the API's no-op, which returns the same meter for every name. A starting SDK passes that first. */
function keepsNothing(meters: MeterProvider): boolean {
  // Only a likely no-op is called: a real provider keeps every name.
  const isBare =
    Object.keys(meters).length === 0 &&
    Object.getOwnPropertyNames(Object.getPrototypeOf(meters)).length === 2;
  return isBare && meters.getMeter('svc') === meters.getMeter('svc', 'none');
}

/** False if svc does not start; the reason is logged. */
function startOrGoOn(current: Running | undefined, given: Given, code: object | undefined): boolean {
  if (current !== undefined && isDeepStrictEqual(code, given.code) && current.resume()) {
    logger.info('goes on after enable()');
    given.diag?.debug('enabled again');
    return true;
  }
  void current?.end();
  const onDebug = (message: string): void => given.diag?.debug(message);
  const started = run(loadConfig(code === undefined ? {} : { code }), { onDebug, isInSdk: true });
  given.diag?.debug(started === undefined ? 'not started' : 'enabled');
  return started !== undefined;
}

function join(given: Given, code: object | undefined): void {
  const names = changedNames(undefined, code);
  if (names.length > 0)
    warn(
      given,
      `SvcInstrumentation joins the svc that svc/register started, and ignores its own ${names.join(', ')}. Put these settings into svc.config.*, or remove svc/register`,
    );
  given.diag?.debug('joins the svc that svc/register started');
}

function sayOccupied(who: object, given: Given, code: object | undefined): void {
  if (state.inCharge === who) {
    warn(given, 'enable() was called, but svc already runs');
    return;
  }
  const names = changedNames(undefined, code);
  const loss = names.length === 0 ? '' : `, and ignores its own ${names.join(', ')}`;
  warn(given, `there is more than one SvcInstrumentation; this one does nothing${loss}`);
}

function takeCharge(who: object, given: Given): void {
  state.inCharge = who;
  setProviders(given);
}

function givenTo(who: object): Given {
  const known = state.given.get(who) ?? {};
  state.given.set(who, known);
  return known;
}

/** Writes to svc's log and, by `OTEL_LOG_LEVEL`, to OpenTelemetry's. */
function warn({ diag }: Given, message: string): void {
  logger.warn(message);
  diag?.warn(message);
}

/** `undefined` if only `enabled` is set, as without configuration in code. */
function codeOf({ enabled: _, ...code }: SvcInstrumentationConfig): object | undefined {
  return Object.keys(code).length === 0 ? undefined : code;
}

function changedNames(before: object | undefined, after: object | undefined): string[] {
  try {
    const [old, now] = [settingsOf(before), settingsOf(after)];
    const names = new Set([...old.keys(), ...now.keys()]);
    return [...names].filter((name) => !isDeepStrictEqual(old.get(name), now.get(name))).sort();
  } catch {
    // A getter throws; reading it for a start reports that.
    return [];
  }
}

function settingsOf(code: object | undefined): Map<string, unknown> {
  const { settings } = flatten(code ?? {}, () => 'code');
  return new Map([...settings.values()].map(({ name, value }) => [name, value]));
}

function sayNotStarted(reason: string, code: object | undefined, fields?: { readonly code: string }): void {
  const { isRequired, format } = lastResort(code);
  if (isRequired) {
    stderrLogger('error', format).error(
      `${reason}. The process does not start, because svc.required is true`,
      fields,
    );
    process.exit(notStartedExitCode);
  }
  consoleLogger('error', format).error(`${reason}. The application runs without svc`, fields);
}
