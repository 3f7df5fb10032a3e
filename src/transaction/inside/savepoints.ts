import type { Dialect } from '../dialect.ts';

/** Between two numbers of `nextSequence()`. */
interface Span {
  readonly from: number;
  readonly to: number;
}

/** The savepoints of one transaction, and what was undone by going back to them. Times are numbers of `nextSequence()`. */
export class Savepoints {
  private all: { readonly name: string; readonly at: number }[] = [];
  private undone: Span[] = [];

  set(name: string, at: number, dialect: Dialect): void {
    // Of the others, the earlier one of that name is there again when this one is released.
    if (dialect === 'mysql') this.all = this.all.filter((one) => one.name !== name);
    this.all.push({ name, at });
  }

  release(name: string): void {
    const index = this.lastOf(name);
    if (index >= 0) this.all.length = index;
  }

  isOutermost(name: string): boolean {
    return this.lastOf(name) === 0;
  }

  /** Returns when it was set: what came after that is undone. `undefined`: there is none of that name. */
  rollbackTo(name: string, now: number): number | undefined {
    const index = this.lastOf(name);
    const from = this.all[index]?.at;
    if (from === undefined) return undefined;
    this.all.length = index + 1;
    this.undone = this.undone.filter((span) => span.from < from);
    this.undone.push({ from, to: now });
    return from;
  }

  hasUndone(at: number): boolean {
    // They are in order and apart.
    const span = this.undone.findLast(({ from }) => from < at);
    return span !== undefined && at < span.to;
  }

  private lastOf(name: string): number {
    return this.all.findLastIndex((one) => one.name === name);
  }
}
