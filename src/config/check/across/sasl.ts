import type { Findings } from './findings.ts';

const prefix = 'svc.broker.sasl.';
const byToken = 'oauthbearer';
const inTokens = (name: string): string => `${prefix}${byToken}.${name}`;
const sources = ['token-endpoint-url', 'token-file', 'token'].map(inTokens);
const ofEndpoint = ['client-id', 'client-secret'].map(inTokens);
const user = ['username', 'password'].map((name) => prefix + name);

/** What signing in to the brokers needs, by its mechanism. */
export function checkSasl(findings: Findings): void {
  const { values, settings, invalid, isGiven, require, warn } = findings;
  const mechanismName = `${prefix}mechanism`;
  // An empty list asks for nothing.
  const isEmpty = (name: string): boolean => Array.isArray(values.get(name)) && `${values.get(name)}` === '';
  const all = [...settings.keys()].filter((name) => name.startsWith(prefix) && !isEmpty(name));
  if (all.length === 0) return;
  require(mechanismName, 'is required to sign in to the brokers');
  if (invalid.has(mechanismName)) return;
  const mechanism = values.get(mechanismName) as string | undefined;
  const isToken = mechanism === byToken;
  const isTokenOnly = mechanism === undefined && !user.some(isGiven);

  if (!isToken && !isTokenOnly)
    for (const name of user) require(name, 'is required to sign in to the brokers');
  if (isToken) checkTokens(findings, mechanismName);
  for (const name of mechanism === undefined ? [] : isToken ? user : all.filter(isOfTokens))
    if (isGiven(name)) warn(name, `has no effect with mechanism ${mechanism}`, 'Remove it');

  if (values.get('svc.broker.tls.enabled') === false && mechanism !== undefined) {
    const message = `${inClear[mechanism] ?? guessable}, because svc.broker.tls.enabled is false`;
    warn(mechanismName, message, 'Set svc.broker.tls.enabled: true');
  }
}

function checkTokens({ values, isGiven, add, require, warn }: Findings, mechanismName: string): void {
  const given = sources.filter(isGiven);
  const [endpoint = ''] = sources;
  if (given.length === 0) add(mechanismName, `${byToken} needs a token`, `Set one of ${sources.join(', ')}`);
  for (const name of given.slice(1))
    add(name, `cannot stand beside ${given[0]}: there is one source of tokens`, 'Keep one of them');
  if (isGiven(endpoint)) for (const name of ofEndpoint) require(name, 'is required by the token endpoint');
  if (String(values.get(endpoint)).startsWith('http:'))
    warn(endpoint, 'sends the client secret unencrypted', 'Use an https address');
}

const inClear: Readonly<Record<string, string>> = {
  plain: 'sends the password unencrypted',
  [byToken]: 'sends the token unencrypted',
};
/** SCRAM sends no password, but what it sends is enough to try passwords with, and the events go in clear beside it. */
const guessable = 'lets whoever listens try out passwords, and read the events';

const isOfTokens = (name: string): boolean => name.startsWith(inTokens(''));
