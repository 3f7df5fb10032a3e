/** What a store lists of one object. Nothing of it is trusted. */
export interface Listed {
  readonly Key?: string;
  readonly Size?: number;
}

export interface Page {
  readonly Contents?: readonly Listed[];
  readonly NextContinuationToken?: string;
}

/** Ten million objects, at a thousand a page. */
export const mostPages = 10_000;

/** A list that goes round in a circle, or does not end. */
export class EndlessList extends Error {
  override readonly name = 'EndlessList';
}

/** The pages of a list, until it ends; whatever tokens come, it does. */
export async function* listPages(page: (token: string | undefined) => Promise<Page>): AsyncGenerator<Page> {
  let token: string | undefined;
  // A token that comes again is met by one that is kept: it is exchanged at ever longer distances.
  let kept: string | undefined;
  let keptUntil = 1;
  for (let count = 1; ; count++) {
    const found = await page(token);
    yield found;
    token = found.NextContinuationToken;
    if (token === undefined || token === '') return;
    if (token === kept || count >= mostPages) throw new EndlessList();
    if (count < keptUntil) continue;
    kept = token;
    keptUntil *= 2;
  }
}
