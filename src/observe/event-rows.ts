/** How many event types are told apart. Event types can come from application data, so their number has a bound. */
export const maxEventTypes = 1000;

/** The row of every event type beyond `maxEventTypes`. */
export const otherEventType = 'other';

/** One row per event type, made on first use; at most `maxEventTypes` of them and one for the rest. */
export interface EventRows<Row> {
  of(eventType: string): Row;
  all(): Iterable<Row>;
}

export function createEventRows<Row>(make: (eventType: string) => Row): EventRows<Row> {
  const rows = new Map<string, Row>();
  const add = (eventType: string): Row => {
    const row = make(eventType);
    rows.set(eventType, row);
    return row;
  };
  return {
    of: (eventType) =>
      rows.get(eventType) ??
      (rows.size < maxEventTypes ? add(eventType) : (rows.get(otherEventType) ?? add(otherEventType))),
    all: () => rows.values(),
  };
}

type OfEventType = Readonly<Record<string, string>>;

/** The labels of a row and its outcome: the same object each time, by which the text of them is kept. */
export const withOutcome = { published: adding('published'), failed: adding('failed') };

function adding(outcome: string): (attributes: OfEventType) => OfEventType {
  const made = new WeakMap<OfEventType, OfEventType>();
  return (attributes) => {
    const known = made.get(attributes) ?? Object.freeze({ ...attributes, outcome });
    made.set(attributes, known);
    return known;
  };
}
