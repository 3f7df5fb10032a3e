/** Of a process that does not start because svc cannot work and `svc.required` is true: `EX_CONFIG` of sysexits.h. */
export const notStartedExitCode = 78;
