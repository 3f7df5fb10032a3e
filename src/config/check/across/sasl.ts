import { variableOf } from '../../schema/option.ts';
import type { CheckInput, CheckResult } from '../check-input.ts';
import type { Problem } from '../problem.ts';

const prefix = 'svc.broker.sasl.';
const inTokens = (name: string): string => `${prefix}oauthbearer.${name}`;
const sources = ['token-endpoint-url', 'token-file', 'token'].map(inTokens);
const ofEndpoint = ['client-id', 'client-secret'].map(inTokens);
const user = ['username', 'password'].map((name) => prefix + name);

/** What signing in to the brokers needs, by its mechanism. */
export function checkSasl({ values, settings, invalid }: CheckInput): CheckResult {
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  const isGiven = (name: string): boolean => settings.has(name);
  const where = (name: string) => settings.get(name)?.where();
  const require = (name: string, message: string): void => {
    if (isGiven(name)) return;
    const fix = `Set ${name} in the file, or the environment variable ${variableOf(name)}`;
    problems.push({ name, message, fix });
  };

  const mechanismName = `${prefix}mechanism`;
  // An empty list asks for nothing.
  const isEmpty = (name: string): boolean => Array.isArray(values.get(name)) && `${values.get(name)}` === '';
  const all = [...settings.keys()].filter((name) => name.startsWith(prefix) && !isEmpty(name));
  if (all.length === 0) return { problems, warnings };
  require(mechanismName, 'is required to sign in to the brokers');
  if (invalid.has(mechanismName)) return { problems, warnings };
  const mechanism = values.get(mechanismName) as string | undefined;
  const isToken = mechanism === 'oauthbearer';
  const isTokenOnly = mechanism === undefined && !user.some(isGiven);

  if (!isToken && !isTokenOnly)
    for (const name of user) require(name, 'is required to sign in to the brokers');
  if (isToken) checkTokens();
  for (const name of mechanism === undefined ? [] : isToken ? user : all.filter(isOfTokens)) {
    if (!isGiven(name)) continue;
    warnings.push({
      name,
      message: `has no effect with mechanism ${mechanism}`,
      where: where(name),
      fix: 'Remove it',
    });
  }

  if (values.get('svc.broker.tls.enabled') === false && mechanism !== undefined) {
    const message = `${inClear[mechanism] ?? guessable}, because svc.broker.tls.enabled is false`;
    warnings.push({
      name: mechanismName,
      message,
      where: where(mechanismName),
      fix: 'Set svc.broker.tls.enabled: true',
    });
  }
  return { problems, warnings };

  function checkTokens(): void {
    const given = sources.filter(isGiven);
    const [endpoint = ''] = sources;
    if (given.length === 0) {
      const fix = `Set one of ${sources.join(', ')}`;
      problems.push({
        name: mechanismName,
        message: 'oauthbearer needs a token',
        where: where(mechanismName),
        fix,
      });
    }
    for (const name of given.slice(1)) {
      const message = `cannot stand beside ${given[0]}: there is one source of tokens`;
      problems.push({ name, message, where: where(name), fix: 'Keep one of them' });
    }
    if (isGiven(endpoint)) for (const name of ofEndpoint) require(name, 'is required by the token endpoint');
    if (String(values.get(endpoint)).startsWith('http:')) {
      const message = 'sends the client secret unencrypted';
      warnings.push({ name: endpoint, message, where: where(endpoint), fix: 'Use an https address' });
    }
  }
}

const inClear: Readonly<Record<string, string>> = {
  plain: 'sends the password unencrypted',
  oauthbearer: 'sends the token unencrypted',
};
/** SCRAM sends no password, but what it sends is enough to try passwords with, and the events go in clear beside it. */
const guessable = 'lets whoever listens try out passwords, and read the events';

const isOfTokens = (name: string): boolean => name.startsWith(inTokens(''));
