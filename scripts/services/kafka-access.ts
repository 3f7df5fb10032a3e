/**
 * Lines of `server.properties` for who may come in and what they may do: tokens without a signature, which a test can
 * make by itself, and permissions for topics that have any; others are open to everybody.
 */
export const accessLines: readonly string[] = [
  'listener.name.secure.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
  'authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer',
  'super.users=User:ANONYMOUS',
  'allow.everyone.if.no.acl.found=true',
];
