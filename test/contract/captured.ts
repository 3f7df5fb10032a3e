import { runOwnWork } from '../../src/ground/lifecycle.ts';
import { createOutboxFunctions } from '../../src/outbox/api/functions.ts';
import type { RunningOutbox } from '../../src/outbox/api/running-outbox.ts';
import { createOutboxJoin, type Storing } from '../../src/outbox/join.ts';
import { createConnections } from '../../src/transaction/connection.ts';
import type { Dialect, DriverPatch } from '../../src/transaction/driver.ts';
import { type CallbackResult, currentScope, runInScope, Scope } from '../../src/transaction/transaction.ts';
import { outboxRow } from '../cli/outbox-folder.ts';

type JoinParts = Parameters<typeof createOutboxJoin>[0];

/** How often svc was surprised by a commit. */
export const alarms = { ungated: 0 };

export const connections = createConnections(() => {
  alarms.ungated++;
});

/** A driver is patched once per process, whichever suite comes first. */
export function patchDriver(driver: DriverPatch, exports: unknown): void {
  driver.patch(exports, connections);
}

const texts: Readonly<Record<Dialect, string>> = {
  postgres: 'INSERT INTO events (id) VALUES ($1)',
  mysql: 'INSERT INTO events (id) VALUES (?)',
  sqlite: 'INSERT INTO events (id) VALUES (?)',
};

/** What a captured function is for the drivers: a scope, and one row in the table `events` of its transaction. */
export class Captures {
  private readonly outcomes = new Map<string, Promise<Storing['outcome'] | 'refused'>>();
  private readonly join: ReturnType<typeof createOutboxJoin>;
  private readonly mayAutocommit: boolean;
  unconfirmed = 0;
  /** What was known of the result of a function before the COMMIT, by the id of its event. */
  readonly results = new Map<string, CallbackResult>();

  /** `autocommit`: stores a row without a transaction. `ready`: rows wait for it. */
  constructor(autocommit?: JoinParts['autocommit'], ready?: JoinParts['ready']) {
    this.mayAutocommit = autocommit !== undefined;
    this.join = createOutboxJoin({
      insert: (dialect, { eventId }) => ({ text: texts[dialect], values: [eventId] }),
      ...{ autocommit, ready },
      onStored() {},
      onUnconfirmed: () => {
        this.unconfirmed++;
      },
    });
  }

  /** Calls a function whose event has this id. */
  call<R>(id: string, work: () => R): R {
    const scope = new Scope(currentScope());
    const publish = (): Promise<void> | undefined => this.publish(id, scope);
    scope.beforeCommit = (result) => {
      if (result !== undefined) this.results.set(id, result);
      return publish();
    };
    const failed = (error: unknown): never => {
      scope.beforeCommit = undefined;
      throw error;
    };
    let result: R;
    try {
      result = runInScope(scope, work);
    } catch (error) {
      return failed(error);
    }
    if (!(result instanceof Promise)) {
      publish()?.catch(() => {});
      return result;
    }
    return result.then(async (value) => {
      await publish();
      return value;
    }, failed) as R;
  }

  /** The functions of `outbox`; the aggregate id of an event is its id. */
  functions(): RunningOutbox {
    return createOutboxFunctions({
      connections,
      isEnabled: true,
      mayAutocommit: this.mayAutocommit,
      save: ({ aggregateId }, scope) => this.store(aggregateId, scope),
      watch() {},
    });
  }

  /** How the events ended that were made, by their ids. */
  async ends(): Promise<Record<string, string>> {
    const ended = [...this.outcomes].map(async ([id, outcome]) => [id, await outcome] as const);
    return Object.fromEntries(await Promise.all(ended));
  }

  private publish(id: string, scope: Scope): Promise<void> | undefined {
    if (!scope.takeEvent()) return undefined;
    return this.store(id, scope);
  }

  private store(id: string, scope: Scope): Promise<void> | undefined {
    return runOwnWork(() => {
      try {
        const { written, outcome } = this.join.store(outboxRow({ eventId: id, aggregateId: id }), scope);
        this.outcomes.set(id, outcome.catch(() => 'refused' as const) as never);
        return written;
      } catch (error) {
        this.outcomes.set(id, Promise.resolve('refused' as const));
        this.join.refuse(error, scope);
        throw error;
      }
    });
  }
}
