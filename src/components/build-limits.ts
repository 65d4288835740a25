import { builderMemoryBytesMax } from './build-budget.ts';

/** Limits of one build and of all builds together. */
export interface BuildLimits {
  /** Own files of one component. */
  filesMax: number;
  /** Their bytes together. */
  bytesMax: number;
  requestsMax: number;
  packagesMax: number;
  packageFilesMax: number;
  packageBytesMax: number;
  bundleBytesMax: number;
  /** CPU time of a build, and of installing its packages. */
  cpuMs: number;
  /** Wall time of the same, apart from waiting in line. */
  deadlineMs: number;
  /** Resident memory of all processes of a build at once. */
  memoryBytesMax: number;
  /** Packages with more files than that, or more code, stay files: to make one text of them would take too long. */
  inlineFilesMax: number;
  inlineCodeBytesMax: number;
  concurrency: number;
  waitingMax: number;
  /** How long a build whose imports name no exact version is answered from the cache. */
  unpinnedMaxAgeMs: number;
}

export const defaultBuildLimits: BuildLimits = {
  filesMax: 200,
  bytesMax: 5 * 1024 * 1024,
  requestsMax: 600,
  packagesMax: 500,
  packageFilesMax: 60_000,
  packageBytesMax: 500 * 1024 * 1024,
  bundleBytesMax: 16 * 1024 * 1024,
  cpuMs: 120_000,
  deadlineMs: 5 * 60_000,
  memoryBytesMax: builderMemoryBytesMax,
  inlineFilesMax: 10_000,
  inlineCodeBytesMax: 32 * 1024 * 1024,
  concurrency: 2,
  waitingMax: 64,
  unpinnedMaxAgeMs: 60 * 60 * 1000,
};
