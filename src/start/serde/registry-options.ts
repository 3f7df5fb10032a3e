import type { Config } from '../../config/config.ts';

/** How the registry of the configuration is reached. */
export const registryOptionsOf = ({ serde }: Config) => ({
  url: serde.schemaRegistryUrl ?? '',
  username: serde.schemaRegistryUsername,
  password: serde.schemaRegistryPassword,
  token: serde.schemaRegistryToken,
  tokenFile: serde.schemaRegistryTokenFile,
  caFile: serde.schemaRegistryCaFile,
});
