import { SvcError } from '../../errors.ts';

/** No token to sign in with. */
export class TokenError extends SvcError {
  /** Whether another try may help: the endpoint was away, and refused nothing. */
  readonly isRetriable: boolean;

  constructor(message: string, isRetriable: boolean) {
    super('SVC_ADAPTERS_TOKEN', message);
    this.isRetriable = isRetriable;
  }
}
