import { isolate } from '../observe/isolate.ts';
import type { DriverSession } from './driver.ts';

/** What svc runs on it is its own work: not captured, not traced, not seen as the application's. */
export function isolated(session: DriverSession): DriverSession {
  return {
    dialect: session.dialect,
    status: () => session.status(),
    beginsByItself: () => session.beginsByItself?.() === true,
    run: (statement, isOpen) => isolate(() => session.run(statement, isOpen)),
    ...(session.isBusy && { isBusy: () => session.isBusy?.() === true }),
    ...(session.runAll && {
      runAll: (statements, isOpen) =>
        isolate(() => session.runAll?.(statements, isOpen) ?? Promise.resolve()),
    }),
  };
}
