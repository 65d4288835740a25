import type { Loader } from 'esbuild';
import type { BuildProblem, BundleForm, BundleRequest, OwnFile } from './build-messages.ts';
import type { SeenPackages } from './package-files.ts';

/** Asks the service for a file of the component itself; null when there is none. */
export type LookUp = (importer: string, specifier: string) => Promise<OwnFile | null>;

export class BuildFailure extends Error {
  readonly problem: BuildProblem;

  constructor(problem: BuildProblem) {
    super(problem.message);
    this.problem = problem;
  }
}

/** One pass of the bundler over a component, and what it has found so far. */
export interface BuildRun {
  request: BundleRequest;
  entry: OwnFile & { loader: Loader };
  /** Files of the component that were requested, by path. */
  own: Map<string, OwnFile>;
  lookUp: LookUp;
  needed: Set<string>;
  seen: SeenPackages;
  /** As that of the request; when packages are only listed, the one that asks least of esbuild. */
  form: BundleForm | 'joined';
  /** Provided modules that the code imports and that are not part of its text; absent: they are part of it. */
  apart: Set<string> | undefined;
}
