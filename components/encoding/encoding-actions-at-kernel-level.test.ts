import { runAtKernelLevel } from '../../test/support/sandbox-level.ts';

await runAtKernelLevel(() => import('./encoding-actions.test.ts'));
