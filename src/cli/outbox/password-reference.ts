/** As the worker's `config.providers` of Kafka name it. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: Kafka Connect has references so.
export const passwordReference = '${env:SVC_OUTBOX_PASSWORD}';
