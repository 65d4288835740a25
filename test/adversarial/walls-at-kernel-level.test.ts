import { runAtKernelLevel } from '../support/sandbox-level.ts';

await runAtKernelLevel(() => import('./walls.test.ts'));
