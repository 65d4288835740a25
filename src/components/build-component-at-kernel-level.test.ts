import { runAtKernelLevel } from '../../test/support/sandbox-level.ts';

await runAtKernelLevel(() => import('./build-component.test.ts'));
