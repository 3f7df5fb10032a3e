/** Runs at most one piece of work per key at a time; who asks meanwhile gets the result of the one under way. */
export function singleFlight<T>(): (key: string, work: () => Promise<T>) => Promise<T> {
  const underWay = new Map<string, Promise<T>>();
  return (key, work) => {
    let flight = underWay.get(key);
    if (flight === undefined) {
      flight = work().finally(() => underWay.delete(key));
      underWay.set(key, flight);
    }
    return flight;
  };
}
