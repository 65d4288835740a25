import { runAtKernelLevel } from '../../test/support/sandbox-level.ts';

await runAtKernelLevel(() => import('./groups-of-processes.test.ts'));
