/** A server or tool cannot be had on this machine: the reason, and what a person can do about it. */
export class Unavailable extends Error {
  readonly how: string;

  constructor(reason: string, how: string) {
    super(reason);
    this.name = 'Unavailable';
    this.how = how;
  }
}
