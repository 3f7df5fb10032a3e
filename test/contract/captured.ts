import { runOwnWork } from '../../src/ground/lifecycle.ts';
import { createOutboxJoin, type OutboxJoin, type Storing } from '../../src/outbox/join.ts';
import type { OutboxRow } from '../../src/outbox/outbox-row.ts';
import { createConnections } from '../../src/transaction/connection.ts';
import type { Dialect } from '../../src/transaction/dialect.ts';
import type { DriverPatch } from '../../src/transaction/driver.ts';
import { currentScope, runInScope, Scope } from '../../src/transaction/scope.ts';

/** How often svc was surprised by a commit. */
export const alarms = { ungated: 0 };

const connections = createConnections(() => {
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
  private readonly join: OutboxJoin = createOutboxJoin({
    insert: (dialect, { eventId }) => ({ text: texts[dialect], values: [eventId] }),
    autocommit: undefined,
    onStored() {},
    onUnconfirmed: () => {
      this.unconfirmed++;
    },
  });
  unconfirmed = 0;

  /** Calls a function whose event has this id. */
  call<R>(id: string, work: () => R): R {
    const scope = new Scope(currentScope());
    const publish = (): Promise<void> | undefined => this.publish(id, scope);
    scope.beforeCommit = publish;
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

  /** How the events ended that were made, by their ids. */
  async ends(): Promise<Record<string, string>> {
    const ended = [...this.outcomes].map(async ([id, outcome]) => [id, await outcome] as const);
    return Object.fromEntries(await Promise.all(ended));
  }

  private publish(id: string, scope: Scope): Promise<void> | undefined {
    scope.beforeCommit = undefined;
    if (scope.hasEvent) return undefined;
    scope.hasEvent = true;
    return runOwnWork(() => {
      try {
        const { written, outcome } = this.join.store({ eventId: id } as OutboxRow, scope);
        this.outcomes.set(id, outcome as never);
        return written;
      } catch (error) {
        this.outcomes.set(id, Promise.resolve('refused' as const));
        this.join.refuse(error, scope);
        throw error;
      }
    });
  }
}
