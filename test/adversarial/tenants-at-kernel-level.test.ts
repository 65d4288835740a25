import { runAtKernelLevel } from '../support/sandbox-level.ts';

await runAtKernelLevel(() => import('./tenants.test.ts'));
