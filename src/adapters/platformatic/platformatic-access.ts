import type { AskAccess } from '../../publish/broker-access.ts';
import { type ClusterMetadata, createKafkaAccess } from '../kafka/access/kafka-access.ts';
import type { KafkaClientOptions } from '../kafka/kafka-client-options.ts';
import { loadPlatformatic } from '../kafka/platformatic-module.ts';
import { readCertificates } from '../kafka/read-certificates.ts';
import { createConnections } from './connections.ts';
import type { BrokerError } from './platformatic-connection.ts';
import { protocolErrorIn, toSendFailure } from './platformatic-failure.ts';
import { createSignIn } from './platformatic-sign-in.ts';
import { parseAddress } from './topics.ts';

export function createPlatformaticAccess(options: KafkaClientOptions): AskAccess {
  return createKafkaAccess({
    ...{ options, toSendFailure, errorName: protocolErrorIn },
    async open(address, asking, signal) {
      const vendor = await loadPlatformatic('svc.broker.client: platformatic');
      const { tls, sasl, logger, connectionTimeoutMs } = asking;
      const signIn = sasl && (await createSignIn(vendor, sasl, connectionTimeoutMs));
      const certificates = tls && readCertificates(tls, logger);
      const connections = createConnections({ vendor, options: asking, certificates, signIn });
      signal.throwIfAborted();
      signal.addEventListener('abort', connections.close);
      const { request } = await connections.get(parseAddress(address));
      return {
        metadata: (topics) =>
          request<ClusterMetadata>('Metadata', topics, false, true, false).catch(answerWithErrors),
        heartbeat: (group, memberId) => request('Heartbeat', group, 0, memberId, null),
      };
    },
  });
}

/** A topic that is not there makes an error of the whole answer, in which all the others have theirs. */
function answerWithErrors(error: BrokerError): ClusterMetadata {
  const { response } = error.cause as { response?: ClusterMetadata };
  if (response === undefined) throw error;
  return response;
}
