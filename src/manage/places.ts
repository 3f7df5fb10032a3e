import type { Socket } from 'node:net';

/** Connections at once. */
export const mostConnections = 64;
/** Of them, those of one address. */
export const mostOfOneAddress = 32;
/** Requests of a connection that wait for the answer before theirs. No client of ours sends any. */
export const mostWaiting = 8;
/** Answers that nobody has read yet, of all connections. */
export const mostUnsentBytes = 32 * 1024 * 1024;

interface Place {
  readonly address: string | undefined;
  isBusy: boolean;
  /** What begins the requests that came behind it. */
  readonly waiting: (() => void)[];
  /** Only a connection whose request had the rights to it stays open after the answer. */
  isAnswered: boolean;
}

/**
 * Who may be connected to the management server. One that is idle keeps nobody out: the one that has been so for the longest time
 * makes room, those that have not shown any rights first.
 */
export class Places {
  /** Idle for the longest time first. */
  readonly #places = new Map<Socket, Place>();

  /** Closes the connection where each place is that of a request under way. */
  enter(socket: Socket): void {
    const { remoteAddress: address } = socket;
    const isOfAddress = (place: Place): boolean => place.address === address;
    const ofAddress = [...this.#places.values()].filter(isOfAddress).length;
    const hasRoom =
      ofAddress >= mostOfOneAddress
        ? this.#makeRoom(isOfAddress)
        : this.#places.size < mostConnections || this.#makeRoom(() => true);
    if (!hasRoom) {
      socket.destroy();
      return;
    }
    this.#places.set(socket, { address, isBusy: false, waiting: [], isAnswered: false });
    socket.on('close', () => this.#places.delete(socket));
  }

  /** One request of a connection at a time: `begin` is called when it is its turn, or never where too many wait. */
  request(socket: Socket, begin: () => void): void {
    const place = this.#places.get(socket);
    if (place === undefined || socket.destroyed) return;
    if (!place.isBusy) {
      place.isBusy = true;
      begin();
    } else if (place.waiting.length < mostWaiting) place.waiting.push(begin);
    else socket.destroy();
  }

  /** An answer was written. Where too much waits for readers, connections that have waited longest are closed, this one last. */
  answerBegins(socket: Socket): void {
    const place = this.#places.get(socket);
    if (place === undefined) return;
    this.#places.delete(socket);
    this.#places.set(socket, place);
    let unsent = 0;
    for (const each of this.#places.keys()) unsent += each.writableLength;
    for (const each of [...this.#places.keys()]) {
      if (unsent <= mostUnsentBytes || each === socket) return;
      if (each.writableLength === 0) continue;
      unsent -= each.writableLength;
      each.destroy();
    }
  }

  requestEnds(socket: Socket): void {
    const place = this.#places.get(socket);
    if (place === undefined) return;
    place.isAnswered = true;
    this.#places.delete(socket);
    this.#places.set(socket, place);
    const next = socket.writable ? place.waiting.shift() : undefined;
    if (next === undefined) place.isBusy = false;
    else next();
  }

  isAnswering(socket: Socket): boolean {
    return this.#places.get(socket)?.isBusy ?? false;
  }

  #makeRoom(isCandidate: (place: Place) => boolean): boolean {
    const idle = [...this.#places].filter(([, place]) => !place.isBusy && isCandidate(place));
    const [longest] = idle.find(([, { isAnswered }]) => !isAnswered) ?? idle[0] ?? [];
    if (longest === undefined) return false;
    this.#places.delete(longest);
    longest.destroy();
    return true;
  }
}
