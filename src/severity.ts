/** How bad an event is. Default: INFO. */
export type Severity = 'INFO' | 'WARN' | 'ERROR' | 'CRITICAL';

export const severities: readonly Severity[] = ['INFO', 'WARN', 'ERROR', 'CRITICAL'];
