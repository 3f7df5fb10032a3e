// inside/: what one transaction holds: rows of svc, savepoints, and who waits for its end.

import type { TransactionEnd } from '../driver.ts';
import type { BufferedRow } from './buffered-rows.ts';

/** `left out`: the transaction was committed, or may have been, and this is not in it. */
export type ParticipantEnd = TransactionEnd | 'left out';

interface NewParticipant {
  readonly at: number;
  /** What is undone with this is undone with what it belongs to: the first write of a function, or its call. */
  readonly from: number;
  readonly row?: BufferedRow | undefined;
}

interface Participant extends NewParticipant {
  readonly end: (how: ParticipantEnd) => void;
}

/** Who waits for the end of a transaction: events, with a row in it or without. */
export class Participants {
  private all: Participant[] = [];
  private over: TransactionEnd | undefined;

  /** `onEnd` hears of the end at once, before anybody who awaits it. */
  add(participant: NewParticipant, onEnd?: (how: ParticipantEnd) => void): Promise<ParticipantEnd> {
    const { promise, resolve } = Promise.withResolvers<ParticipantEnd>();
    const end = (how: ParticipantEnd): void => {
      onEnd?.(how);
      resolve(how);
    };
    if (this.over === undefined) this.all.push({ ...participant, end });
    else end(this.over);
    return promise;
  }

  /** From now on all that comes has ended. `isEnded`: of what is there. */
  close(how: TransactionEnd, isEnded: (row: BufferedRow | undefined) => boolean): void {
    this.over = how;
    this.end(how, isEnded);
  }

  end(how: ParticipantEnd, isEnded: (row: BufferedRow | undefined) => boolean): void {
    const ended = this.all.filter(({ row }) => isEnded(row));
    this.all = this.all.filter(({ row }) => !isEnded(row));
    for (const participant of ended) participant.end(how);
  }

  /** Returns the rows that are gone though what they belong to began before, and stands. */
  rollbackTo(since: number): readonly BufferedRow[] {
    const undone = this.all.filter(({ from }) => from > since);
    this.all = this.all.filter(({ from }) => from < since);
    for (const participant of undone) participant.end('rolled_back');
    return this.all.flatMap(({ at, row }) => (at > since && row !== undefined ? [row] : []));
  }
}

export function unlessRolledBack(how: ParticipantEnd): ParticipantEnd {
  return how === 'rolled_back' ? how : 'left out';
}
