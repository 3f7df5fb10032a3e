import { withSvc } from 'svc/next';

export default withSvc({
  output: 'standalone',
  // The lock file of this repository lies above: without it Next.js takes that folder for the root.
  turbopack: { root: import.meta.dirname },
});
