import { runAtKernelLevel } from '../../test/support/sandbox-level.ts';

await runAtKernelLevel(() => import('./package-fetcher.test.ts'));
