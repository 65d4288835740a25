import { assert } from '#lib/assert.ts';
import { type CallAnswer, notStarted } from './process-end.ts';
import type { CallRequest } from './runner.ts';

/** A bundle in a process. */
interface Module {
  readonly deploymentId: string;
  /** The evaluation under way, or true after it finished. */
  loaded: Promise<CallAnswer> | true | undefined;
  /** The props that were sent last. */
  props: unknown;
  dynamic: unknown;
}

/** The bundles that one process has, by their names in it. */
export class LoadedModules {
  readonly #modules = new Map<string, Module>();
  readonly #deployments = new Set<string>();

  /** True when the bundle was evaluated to its end. */
  has(name: string): boolean {
    return this.#modules.get(name)?.loaded === true;
  }

  /** Evaluates a bundle once. A load under way is shared. */
  load(name: string, deploymentId: string, begin: () => Promise<CallAnswer>): Promise<CallAnswer> {
    const existing = this.#modules.get(name)?.loaded;
    if (existing !== undefined && existing !== true) return existing;
    const module: Module = { deploymentId, loaded: undefined, props: undefined, dynamic: undefined };
    this.#modules.set(name, module);
    this.#deployments.add(deploymentId);
    const loaded = begin().then((answer) => {
      if (answer !== notStarted && answer.status === 'finished') module.loaded = true;
      return answer;
    });
    module.loaded = loaded;
    return loaded;
  }

  /** True when code of more than one deployment was here. Code of the others may still run. */
  get hasSeveralDeployments(): boolean {
    return this.#deployments.size > 1;
  }

  /** Removes bundles, and returns the names of those that were here. */
  remove(names: readonly string[]): string[] {
    return names.filter((name) => this.#modules.delete(name));
  }

  deploymentOf(name: string): string {
    return this.#get(name).deploymentId;
  }

  /**
   * True when the props of a call differ from those sent before. They change with the revision, which gets a new module. Objects are compared
   * by identity, so a caller that builds them again sends them again.
   */
  takeProps(name: string, { props, dynamicProps }: CallRequest): boolean {
    const module = this.#get(name);
    const differ = module.props !== props || module.dynamic !== dynamicProps;
    module.props = props;
    module.dynamic = dynamicProps;
    return differ;
  }

  /** The deployment whose code caused a frame: the one that the process names if it has code here, else the only one there is. */
  deploymentNamed(named: unknown): string | undefined {
    const known = new Set([...this.#modules.values()].map(({ deploymentId }) => deploymentId));
    if (typeof named === 'string' && known.has(named)) return named;
    const [only] = known;
    return known.size === 1 ? only : undefined;
  }

  #get(name: string): Module {
    const module = this.#modules.get(name);
    assert(module !== undefined, 'a module was called before it was loaded');
    return module;
  }
}
