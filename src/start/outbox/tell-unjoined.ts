import type { Logger } from '../../observe/logger.ts';
import { printable } from '../../observe/printable.ts';

interface TellsUnjoined {
  /** `target`: as reports name it, such as `src/orders.ts#placeOrder`; `undefined`: the application called `outbox.save()`. */
  tell(row: { readonly eventType: string }, target: string | undefined): void;
  count(): number;
  /** One line for health and the doctor, as soon as there was one. */
  remark(): string | undefined;
}

const mostTold = 100;

/** Says once for each target that its events are stored by themselves, and counts them. */
export function tellUnjoined(logger: Logger): TellsUnjoined {
  const told = new Set<string>();
  let count = 0;
  return {
    tell({ eventType }, target) {
      count++;
      const whose = target ?? `outbox.save() of ${eventType}`;
      if (told.has(whose) || told.size >= mostTold) return;
      told.add(whose);
      logger.warn(
        `outbox: an event of ${printable(whose)} was made outside any transaction: it is stored by itself, right after the call, and a process that ends between the two leaves what the call wrote without its event. Call the function within a transaction, or let such calls fail with svc.outbox.on-no-transaction: error (docs/outbox.md); this is said once for each target`,
        { eventType, ...(target !== undefined && { target }) },
      );
    },
    count: () => count,
    remark() {
      if (count === 0) return undefined;
      const first = [...told].slice(0, 5).map(printable).join(', ');
      const more = told.size > 5 ? ` and ${told.size - 5} more` : '';
      return `${count} event${count === 1 ? ' was' : 's were'} made outside any transaction and stored by themselves, not atomic with what the calls wrote: ${first}${more}; see svc_outbox_unjoined_total, and docs/outbox.md for what to do`;
    },
  };
}
