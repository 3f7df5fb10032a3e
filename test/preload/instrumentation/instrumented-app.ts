import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { sharedMemoryStore } from '../../../src/adapters/memory/memory-broker.ts';
import { setLogger } from '../../../src/observe/logger.ts';
import type { SvcInstrumentationConfig } from '../../../src/preload/instrumentation/control.ts';
import { SvcInstrumentation } from '../../../src/preload/instrumentation/svc-instrumentation.ts';
import { running } from '../../../src/preload/preload.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { until } from '../../support/until.ts';

export type Order = (id: number) => Promise<{ id: number }>;

/** An application in this process: a module of its own, events in memory, and the lines that svc writes. */
export interface InstrumentedApp {
  readonly folder: string;
  readonly file: string;
  readonly lines: readonly string[];
  /** What its SvcInstrumentation is given, beside `more` of `svc`. */
  config(more?: object): SvcInstrumentationConfig;
  make(config?: SvcInstrumentationConfig): SvcInstrumentation;
  /** Loads its module, as `require` does: once. */
  load(): Order;
  /** Ids of the orders whose events are on the topic. */
  published(topic?: string): number[];
  /** Until nothing of svc is left. */
  ended(): Promise<void>;
  remove(): Promise<void>;
}

export function instrumentedApp(): InstrumentedApp {
  const folder = temporaryFolder('instrumented');
  const file = join(folder, 'orders.cjs');
  writeFileSync(file, 'exports.order = async (id) => { await null; return { id }; };');
  const lines: string[] = [];
  const say = (level: string) => (message: string) => lines.push(`${level}: ${message}`);
  const takeBack = setLogger({ debug() {}, info: say('info'), warn: say('warn'), error: say('error') });
  const made: SvcInstrumentation[] = [];
  sharedMemoryStore().clear();
  const app: InstrumentedApp = {
    folder,
    file,
    lines,
    config: (more = {}) => ({
      svc: {
        broker: { client: 'memory', topic: 'orders', dlqBackupPath: join(folder, 'backup') },
        targets: [{ module: file, function: 'order', eventType: 'ORDERED' }],
        ...more,
      },
      management: { endpoints: { web: { exposure: { include: [] } } } },
    }),
    make(config = app.config()) {
      const instrumentation = new SvcInstrumentation(config);
      made.push(instrumentation);
      return instrumentation;
    },
    load: () => (createRequire(file)(file) as { order: Order }).order,
    published: (topic = 'orders') =>
      sharedMemoryStore()
        .all()
        .filter((one) => one.topic === topic)
        .map(({ record }) => JSON.parse(String(record.value)).payload.id as number),
    ended: () => until(() => running() === undefined && lines.includes('info: ended after disable()')),
    async remove() {
      const current = running();
      for (const one of made) one.disable();
      await until(() => current === undefined || current.hasEnded);
      takeBack();
    },
  };
  return app;
}
