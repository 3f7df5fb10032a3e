/** What became of the events so far, as `/metrics` counts them. */
export interface Ledger {
  readonly calls: number;
  readonly published: number;
  readonly backup: number;
  readonly drained: number;
  readonly refused: number;
  readonly lost: number;
  /** Without an outcome yet. */
  readonly inFlight: number;
  /** Waiting in the backup. */
  readonly waiting: number;
}

const names: Readonly<Record<keyof Ledger, string>> = {
  calls: 'svc_events_calls_total',
  published: 'svc_events_published_total',
  backup: 'svc_events_backup_total',
  drained: 'svc_backup_drained_total',
  refused: 'svc_events_refused_total',
  lost: 'svc_events_lost_total',
  inFlight: 'svc_events_in_flight',
  waiting: 'svc_backup_events',
};

export async function readLedger(management: string): Promise<Ledger> {
  const lines = (await (await fetch(`${management}/metrics`)).text()).split('\n');
  const sum = (name: string): number =>
    lines
      .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
      .reduce((total, line) => total + Number(line.split(' ').at(-1)), 0);
  return Object.fromEntries(
    Object.entries(names).map(([key, name]) => [key, sum(name)]),
  ) as unknown as Ledger;
}

/** One moment of the demo: the ledger, and what lies in Kafka where that was looked at. */
export interface Moment {
  readonly name: string;
  readonly ledger: Ledger;
  readonly inKafka: number | undefined;
}

/** The moments side by side, as lines of text. */
export function ledgerTable(moments: readonly Moment[]): string[] {
  const rows: [string, (moment: Moment) => number | string][] = [
    ['', ({ name }) => name],
    ['events of the application', ({ ledger }) => ledger.calls],
    ['published at once', ({ ledger }) => ledger.published],
    ['put into the backup', ({ ledger }) => ledger.backup],
    ['  of these, sent since', ({ ledger }) => ledger.drained],
    ['  still waiting there', ({ ledger }) => ledger.waiting],
    ['refused or lost', ({ ledger }) => ledger.refused + ledger.lost],
    ['in Kafka, counted there', ({ inKafka }) => inKafka ?? '-'],
  ];
  return rows.map(([what, read]) =>
    [what.padEnd(27), ...moments.map((moment) => String(read(moment)).padStart(14))].join('').trimEnd(),
  );
}

/** What does not add up at the end; empty when everything does. */
export function problemsOf({ ledger, inKafka }: Moment): string[] {
  const { calls, published, backup, drained, refused, lost, inFlight, waiting } = ledger;
  const checks: [boolean, string][] = [
    [calls === published + backup + refused + lost && inFlight === 0, 'an event has no outcome, or two'],
    [backup > 0, 'the outage was over before an event noticed it'],
    [drained === backup && waiting === 0, 'the backup is not empty'],
    [refused + lost === 0, 'events were refused or lost'],
    [inKafka === calls, `Kafka holds ${inKafka} different events, not ${calls}`],
  ];
  return checks.filter(([holds]) => !holds).map(([, problem]) => problem);
}
