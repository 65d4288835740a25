import { runAtKernelLevel } from '../support/sandbox-level.ts';

await runAtKernelLevel(() => import('./expressions.test.ts'));
