// inside/: what one transaction holds: rows of svc, savepoints, and who waits for its end.

import type { TransactionEnd } from '../driver.ts';
import type { HeldRow } from './held-rows.ts';

/** `left out`: the transaction was committed, or may have been, and this is not in it. */
export type PartEnd = TransactionEnd | 'left out';

interface NewPart {
  readonly at: number;
  /** What is undone with this is undone with what the part belongs to: the first write of a function, or its call. */
  readonly from: number;
  readonly row?: HeldRow | undefined;
}

interface Part extends NewPart {
  readonly end: (how: PartEnd) => void;
}

/** Who waits for the end of a transaction: events, with a row in it or without. */
export class Parts {
  private all: Part[] = [];
  private over: TransactionEnd | undefined;

  /** `onEnd` hears of the end at once, before anybody who awaits it. */
  add(part: NewPart, onEnd?: (how: PartEnd) => void): Promise<PartEnd> {
    const { promise, resolve } = Promise.withResolvers<PartEnd>();
    const end = (how: PartEnd): void => {
      onEnd?.(how);
      resolve(how);
    };
    if (this.over === undefined) this.all.push({ ...part, end });
    else end(this.over);
    return promise;
  }

  /** From now on all that comes has ended. `isEnded`: of what is there. */
  close(how: TransactionEnd, isEnded: (row: HeldRow | undefined) => boolean): void {
    this.over = how;
    this.end(how, isEnded);
  }

  end(how: PartEnd, isEnded: (row: HeldRow | undefined) => boolean): void {
    const ended = this.all.filter(({ row }) => isEnded(row));
    this.all = this.all.filter(({ row }) => !isEnded(row));
    for (const part of ended) part.end(how);
  }

  /** Returns the rows that are gone though what they belong to began before, and stands. */
  rollbackTo(since: number): readonly HeldRow[] {
    const undone = this.all.filter(({ from }) => from > since);
    this.all = this.all.filter(({ from }) => from < since);
    for (const part of undone) part.end('rolled_back');
    return this.all.flatMap(({ at, row }) => (at > since && row !== undefined ? [row] : []));
  }
}

export function unlessRolledBack(how: PartEnd): PartEnd {
  return how === 'rolled_back' ? how : 'left out';
}
