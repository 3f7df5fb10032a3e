import type { AuthenticationProviderArgs, Mechanism, SASLOptions } from 'kafkajs';
import type { KafkaSaslOptions, KafkaTokenOptions } from '../kafka/kafka-client-options.ts';
import { isTokenRefused } from '../kafka/token/request-token.ts';
import type { TokenSource } from '../kafka/token/token-source.ts';

type Sasl = SASLOptions | Mechanism;

/** What kafkajs signs in with. All clients made from one share their token. */
export async function createSignIn(sasl: KafkaSaslOptions, timeoutMs: number): Promise<() => Sasl> {
  if (sasl.mechanism !== 'oauthbearer') return () => ({ ...sasl }) as SASLOptions;
  const { createTokenSource } = await import('../kafka/token/token-source.ts');
  const token = createTokenSource(sasl, timeoutMs);
  return () => ({
    mechanism: 'oauthbearer',
    // The one of kafkajs does not read the answer.
    authenticationProvider: ({ saslAuthenticate }) => ({
      authenticate: () => signIn(token, sasl.extensions, saslAuthenticate),
    }),
  });
}

async function signIn(
  token: TokenSource,
  extensions: KafkaTokenOptions['extensions'],
  saslAuthenticate: AuthenticationProviderArgs['saslAuthenticate'],
): Promise<void> {
  const pairs = Object.entries(extensions ?? {}).map(([name, value]) => `\u0001${name}=${value}`);
  const secret = await token();
  const text = Buffer.from(`n,,\u0001auth=Bearer ${secret}${pairs.join('')}\u0001\u0001`);
  const length = Buffer.alloc(4);
  length.writeInt32BE(text.length);
  await saslAuthenticate({
    request: { encode: () => Buffer.concat([length, text]) },
    response: {
      decode: (answer) => answer,
      parse: (answer) => {
        if (!isTokenRefused(answer)) return answer;
        token.refused(secret);
        throw Object.assign(new Error('token refused'), { name: refused });
      },
    },
  });
}

const refused = 'KafkaJSSASLAuthenticationError';
