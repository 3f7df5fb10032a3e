// What the configuration and the management server both have to know.

/** Shorter bearer tokens can be guessed. */
export const minTokenLength = 16;

/** Ids of the specification; `management.endpoints.web.exposure.include` lists them, or `*`. */
export const endpointIds = ['health', 'info', 'metrics', 'prometheus', 'svc-metrics', 'svc-outbox'] as const;
export type EndpointId = (typeof endpointIds)[number];
