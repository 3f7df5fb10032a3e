// start/: opens the adapters and connects the folders. Nothing else does.

import { AsyncResource } from 'node:async_hooks';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { isMainThread } from 'node:worker_threads';
import type { Call, OnCall } from '../capture/call.ts';
import { connectDeclarations, disconnectDeclarations } from '../capture/declare/declarations.ts';
import type { PackagePatch } from '../capture/packages/hook.ts';
import type * as Preparing from '../capture/prepare.ts';
import { notesAbout, type TargetReport } from '../capture/report.ts';
import { type CaptureSlot, createSlot } from '../capture/slot.ts';
import type { Config } from '../config/config.ts';
import type { ContextOptions } from '../context/context-store.ts';
import { installRequestContext } from '../context/request.ts';
import { SvcError } from '../ground/errors.ts';
import { loadChunk } from '../ground/lifecycle.ts';
import { inLines, logger } from '../observe/logger.ts';
import { sayWhereSdkIsForeign } from '../observe/otel-api.ts';
import { createLedger } from '../observe/outcomes.ts';
import { listenToWorkers, shareRow } from '../observe/thread-counts.ts';
import type { RunningOutbox } from '../outbox/api/running-outbox.ts';
import type { Protection } from '../protect/protection.ts';
import type { Producer } from '../publish/publisher.ts';
import type * as Drivers from './drivers.ts';
import type * as Engines from './engine.ts';

/** svc, running in this process. */
export interface Service {
  readonly producer: Producer;
  readonly brokerClient: string;
  /** The public outbox functions. `undefined`: svc follows no transactions. */
  readonly outbox: RunningOutbox | undefined;
  /** The state of the publish targets, configured and declared. `isOver`: the process is ending. */
  report(isOver?: boolean): readonly TargetReport[];
  /** Events without an outcome yet. */
  pending(): number;
  /** Whether the process must not end yet: outbox rows to send, shards to release, or a recovery to stop. */
  isBusy(): boolean;
  /** Waits for the events so far without giving up any. Resolves to whether all have their outcome. */
  flush(deadlineMs: number): Promise<boolean>;
  /** Drops the cached keys of a key service and fetches them again. */
  invalidateEncryptionKeys(): Promise<void>;
  /**
   * Resolves when no event is in flight and the committed outbox rows are sent. Near the deadline, unacknowledged events go to the
   * next tier, while `isWanted`.
   */
  finish(deadlineMs: number, isWanted?: () => boolean): Promise<boolean>;
  /**
   * For the exit of the process: writes events without an outcome to the backup, synchronously. Events of later exit handlers go
   * there, too. Returns how many were written now.
   */
  storeSync(): number;
  /** Problems with the outbox's drivers, a line each, for the report at the start. */
  startRemarks(): readonly string[];
  /** More lines for the report at the end. */
  remarks(): readonly string[];
  /** Captures nothing until `resume`. Events in flight continue. */
  pause(): void;
  resume(): void;
  /** Stops capture, flushes up to the deadline, disconnects and closes the management server. */
  stop(deadlineMs: number): Promise<void>;
}

let parts: typeof Engines | undefined;

/**
 * Plans and publishing, two thirds of svc. Loaded when the first function is captured, so that neither a process without
 * targets nor the first event waits for it.
 */
function engineParts(): typeof Engines {
  parts ??= loadChunk(import.meta.url, './engine.ts') as typeof Engines;
  return parts;
}

export function start(config: Config): Service {
  const ledger = createLedger(isMainThread ? undefined : shareRow);
  const contextOptions = contextOptionsOf(config);
  const uninstallContext = installRequestContext(contextOptions);
  sayWhereSdkIsForeign((text) => logger.warn(text));
  const workers = isMainThread ? listenToWorkers() : undefined;
  const following = followTransactions(config);
  const followed = following?.patches ?? [];
  const patches = config.aop.enabled ? [...followed, ...callbackPatches(config, followed)] : [];
  const capture = startCapture(config, patches);
  const declared: CaptureSlot[] = [];
  const report = (isOver?: boolean) => [...capture.report(isOver), ...declared.map(reportOf)];
  const early: Parameters<Protection['addRules']>[] = [];
  let engine: ReturnType<typeof Engines.startEngine> | undefined;
  let isOver = false;
  let isPaused = false;
  let isStopped = false;
  // The first event may start the engine: timers and connections must not keep the context of that call.
  const outside = new AsyncResource('svc');
  const running = () => {
    if (engine === undefined) {
      engine = outside.runInAsyncScope(() =>
        engineParts().startEngine(config, contextOptions, ledger, report, workers),
      );
      for (const rules of early) engine.protection.addRules(...rules);
      if (isOver) engine.storeSync();
    }
    return engine;
  };

  const onCall: OnCall = Object.assign((call: Call) => running().pipeline.onCall(call), {
    neverWaits: config.broker.asyncMode,
  });
  const setOnCall = (to: CaptureSlot['onCall']): void => {
    capture.setOnCall(to);
    for (const slot of declared) slot.onCall = to;
  };
  if (config.aop.enabled) {
    capture.setOnCall(onCall);
    connectDeclarations(
      (declaration) => {
        const { planOfDeclaration, declaredRules } = engineParts();
        const plan = planOfDeclaration(declaration, config);
        if (plan.afterCommit && followed.length === 0) throw unfollowed();
        const params = declaration.parameterNames;
        const rules = declaredRules({ ...declaration.options, params }, config);
        if (engine === undefined) early.push([plan.eventType, rules, plan.id]);
        else engine.protection.addRules(plan.eventType, rules, plan.id);
        const slot = createSlot(plan, isPaused ? null : onCall);
        declared.push(slot);
        ledger.declare([plan.eventType]);
        return slot;
      },
      ({ name }, reason) =>
        logger.error(
          ...inLines(`${name} is not captured: ${reason instanceof Error ? reason.message : reason}`),
        ),
    );
  }
  // Without an event, the broker and the management server start after the application's first tick.
  // With `svc.required` they start at once, so that the application fails before it does anything.
  if (config.required) running();
  const startSoon = (): void =>
    void setImmediate(() => {
      if (isPaused || isStopped) return;
      try {
        running();
      } catch (error) {
        logger.error(`could not start: ${error instanceof Error ? error.message : 'unknown error'}`);
      }
    }).unref();
  startSoon();

  return {
    brokerClient: config.broker.client,
    producer: { publish: (payload, options) => running().pipeline.producer.publish(payload, options) },
    outbox:
      following &&
      driverParts().createOutboxFunctions({
        ...following,
        isEnabled: config.outbox.enabled,
        mayAutocommit: !config.outbox.enabled || config.outbox.onNoTransaction === 'autocommit',
        save: (event, scope) => running().pipeline.save(event, scope),
      }),
    report: (isOver) => workers?.withCalls(report(isOver), ({ id }) => id) ?? report(isOver),
    pending: () => ledger.snapshot().inFlight - (engine?.joined() ?? 0),
    isBusy: () => engine?.isBusy() ?? false,
    flush: async (deadlineMs) => engine?.flush(deadlineMs) ?? true,
    invalidateEncryptionKeys: async () => engine?.protection.invalidateKeys(),
    finish: async (deadlineMs, isWanted) => engine?.finish(deadlineMs, isWanted) ?? true,
    storeSync: () => {
      isOver = true;
      const stored = engine?.storeSync() ?? 0;
      // The counts in the main thread are no longer read.
      if (!isMainThread) ledger.saved(stored);
      return stored;
    },
    startRemarks: () => {
      const wantsTransactions =
        config.targets.some((target) => target.outbox !== undefined) ||
        declared.some(({ plan }) => plan.outbox !== undefined);
      return isMainThread && wantsTransactions ? (following?.remarks() ?? []) : [];
    },
    remarks() {
      if (engine === undefined) return [];
      const published = [...ledger.rows()].map(({ attributes }) => attributes.eventType);
      const unused = engineParts().unusedSchemas(config, published, true);
      return [...engine.protection.remarks(), ...unused.map(({ name, message }) => `${name} ${message}`)];
    },
    pause() {
      isPaused = true;
      setOnCall(null);
    },
    resume() {
      isPaused = false;
      if (config.aop.enabled) setOnCall(onCall);
      startSoon();
    },
    async stop(deadlineMs) {
      isStopped = true;
      setOnCall(null);
      capture.close();
      disconnectDeclarations();
      workers?.close();
      uninstallContext();
      await engine?.close(deadlineMs);
    },
  };
}

type Capture = ReturnType<typeof Preparing.prepare>;

const noTargets: Capture = { setOnCall() {}, report: () => [], close() {} };

function startCapture(config: Config, patches: readonly PackagePatch[]): Capture {
  const { aop, targets, baseDir } = config;
  if (!aop.enabled || targets.length + patches.length === 0) return noTargets;
  const { prepare } = loadChunk(import.meta.url, '../capture/prepare.ts') as typeof Preparing;
  const captured = targets.map((target) => ({
    id: target.id,
    module: target.module,
    functionPath: target.function,
    makePlan: (names: readonly string[] | undefined) => engineParts().planOfTarget(target, names, config),
  }));
  return prepare(captured, { baseDir, patches });
}

/** Transactions are followed only if an event may belong to one. */
function followTransactions({ outbox, targets }: Config) {
  if (!outbox.enabled && !targets.some(({ afterCommit }) => afterCommit)) return undefined;
  return driverParts().followDrivers(outbox);
}

/** Drivers that call back from a socket, which another request may have opened. */
const callingBack = ['pg', 'mysql2', 'mysql2/promise'];

/** For drivers that svc does not follow. Without an installed driver, nothing is hooked. */
function callbackPatches({ baseDir }: Config, followed: readonly PackagePatch[]): PackagePatch[] {
  const folders = createRequire(path.join(baseDir, 'noop.js')).resolve.paths('pg') ?? [];
  return callingBack
    .filter((name) =>
      folders.some((folder) => existsSync(path.join(folder, name.split('/', 1)[0] as string))),
    )
    .filter((name) => followed.every(({ specifier }) => specifier !== name))
    .map((specifier) => ({
      specifier,
      patch: (exports) => driverParts().bindCallbacks(specifier, exports),
    }));
}

function driverParts(): typeof Drivers {
  return loadChunk(import.meta.url, './drivers.ts') as typeof Drivers;
}

/** Drivers are patched when they are loaded, so a declaration in code comes too late. */
function unfollowed(): SvcError {
  return new SvcError(
    'SVC_CAPTURE_RULE',
    'afterCommit needs svc.outbox.enabled, or a target in the configuration that has it. Without them svc does not follow transactions',
  );
}

function reportOf({ plan, calls, failed, skipped }: CaptureSlot): TargetReport {
  return {
    id: plan.id,
    state: 'patched',
    notes: [plan.origin, ...(plan.notes ?? []), ...notesAbout(plan.id)],
    calls,
    failed,
    skipped,
  };
}

function contextOptionsOf({ context, security }: Config): ContextOptions {
  return {
    correlationHeaders: context.correlationId.headers,
    generateCorrelationId: context.correlationId.generate,
    correlationResponseHeader: context.correlationId.responseHeader,
    useForwardedHeaders: security.useForwardedHeaders,
    forwardedHeader: security.forwardedHeader,
    trustedProxies: security.trustedProxies,
    userId: context.actor.userId,
    sessionId: context.actor.sessionId,
    baggageTags: context.tags.baggage,
  };
}
