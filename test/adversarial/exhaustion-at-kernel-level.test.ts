import { runAtKernelLevel } from '../support/sandbox-level.ts';

await runAtKernelLevel(() => import('./exhaustion.test.ts'));
