import { assert } from '#lib/assert.ts';
import { type CallAnswer, notStarted } from './process-end.ts';
import type { CallRequest } from './runner.ts';

/** One bundle in a process. */
interface Module {
  readonly deploymentId: string;
  /** Being evaluated, or done with it. */
  loaded: Promise<CallAnswer> | true | undefined;
  /** As they were sent last. */
  props: unknown;
  dynamic: unknown;
}

/** The bundles that one process has, by the names that they have there. */
export class LoadedModules {
  readonly #modules = new Map<string, Module>();

  /** It was evaluated to its end. */
  has(name: string): boolean {
    return this.#modules.get(name)?.loaded === true;
  }

  /** Evaluates it once: a load that goes on already is the answer. */
  load(name: string, deploymentId: string, begin: () => Promise<CallAnswer>): Promise<CallAnswer> {
    const existing = this.#modules.get(name)?.loaded;
    if (existing !== undefined && existing !== true) return existing;
    const module: Module = { deploymentId, loaded: undefined, props: undefined, dynamic: undefined };
    this.#modules.set(name, module);
    const loaded = begin().then((answer) => {
      if (answer !== notStarted && answer.status === 'finished') module.loaded = true;
      return answer;
    });
    module.loaded = loaded;
    return loaded;
  }

  /** The names among these that were here. */
  remove(names: readonly string[]): string[] {
    return names.filter((name) => this.#modules.delete(name));
  }

  deploymentOf(name: string): string {
    return this.#get(name).deploymentId;
  }

  /**
   * Whether the props of a call differ from those sent before. They change with the revision, which gets a new module; the identity
   * check is for callers that rebuild them.
   */
  takeProps(name: string, { props, dynamicProps }: CallRequest): boolean {
    const module = this.#get(name);
    const differ = module.props !== props || module.dynamic !== dynamicProps;
    module.props = props;
    module.dynamic = dynamicProps;
    return differ;
  }

  /** Whose code something came from: the deployment that the process names if it has code here, else the only one there is. */
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
