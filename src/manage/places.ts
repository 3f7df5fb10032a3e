import type { Socket } from 'node:net';

/** Connections at once. */
export const mostConnections = 64;
/** Of them, those of one address. */
export const mostOfOneAddress = 32;

interface Place {
  readonly address: string | undefined;
  underWay: number;
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
    this.#places.set(socket, { address, underWay: 0, isAnswered: false });
    socket.on('close', () => this.#places.delete(socket));
  }

  requestBegins(socket: Socket): void {
    const place = this.#places.get(socket);
    if (place !== undefined) place.underWay++;
  }

  requestEnds(socket: Socket): void {
    const place = this.#places.get(socket);
    if (place === undefined) return;
    place.underWay--;
    place.isAnswered = true;
    this.#places.delete(socket);
    this.#places.set(socket, place);
  }

  isAnswering(socket: Socket): boolean {
    return (this.#places.get(socket)?.underWay ?? 0) > 0;
  }

  #makeRoom(isCandidate: (place: Place) => boolean): boolean {
    const idle = [...this.#places].filter(([, place]) => place.underWay === 0 && isCandidate(place));
    const [longest] = idle.find(([, { isAnswered }]) => !isAnswered) ?? idle[0] ?? [];
    if (longest === undefined) return false;
    this.#places.delete(longest);
    longest.destroy();
    return true;
  }
}
