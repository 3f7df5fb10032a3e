/** What went wrong between us and one broker; what it was is the cause. */
export class BrokerError extends Error {
  readonly broker: string;

  constructor(broker: string, cause: unknown) {
    super('a request to Kafka failed', { cause });
    this.broker = broker;
  }
}

export class NoAnswer extends Error {
  readonly limitMs: number;

  constructor(limitMs: number) {
    super(`no answer within ${limitMs} ms`);
    this.limitMs = limitMs;
  }
}

export class NoCommonVersion extends Error {
  constructor(request: string) {
    super(`svc and this Kafka have no version of ${request} in common`);
  }
}
