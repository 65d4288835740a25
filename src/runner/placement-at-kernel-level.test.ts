import { runAtKernelLevel } from '../../test/support/sandbox-level.ts';

await runAtKernelLevel(() => import('./placement.test.ts'));
