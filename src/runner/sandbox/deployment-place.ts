import { type Environment, environmentOf } from './deployment-environment.ts';
import { makeFolder, removeFolder } from './primordials.ts';

/** The environment variables and the `/tmp` that a deployment has for itself in its process. */
export class DeploymentPlace {
  readonly deploymentId: string;
  /** The value of `process.env`. */
  environment: Environment;
  readonly #folder: string;
  #hasFolder = false;

  /** `name` is unique in the process; `base` is the folder of the process. */
  constructor(name: string, options: { deploymentId: string; base: string; environment: Environment }) {
    this.deploymentId = options.deploymentId;
    this.environment = environmentOf(options.environment);
    this.#folder = `${options.base}/of-${name}`;
  }

  /** The folder, which is created when it is first used. */
  get folder(): string {
    if (!this.#hasFolder) makeFolder(this.#folder, { recursive: true });
    this.#hasFolder = true;
    return this.#folder;
  }

  /** Removes the folder. What cannot be removed stays until the process ends. */
  remove(): void {
    if (!this.#hasFolder) return;
    this.#hasFolder = false;
    void removeFolder(this.#folder, { recursive: true, force: true }).catch(() => undefined);
  }
}
