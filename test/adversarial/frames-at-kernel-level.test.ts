import { runAtKernelLevel } from '../support/sandbox-level.ts';

await runAtKernelLevel(() => import('./frames.test.ts'));
